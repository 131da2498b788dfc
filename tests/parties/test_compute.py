import pytest
import torch

from cutlayer.data import PartyTable
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.errors import ConfigurationError, DataError, PeerEndedError
from cutlayer.models import ConvTop, conv_blocks
from cutlayer.parties import CheckpointStore, Compute, LabelParty, Persistence
from cutlayer.parties.compute import Accumulator
from cutlayer.protections import Marvell, NoNoise, Residual
from cutlayer.rng import SecretNoise, SeededNoise
from tests.parties.conftest import adam, make_top, run_pair, tables, terms


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_gradients_of_a_batch_add_up_to_one_step():
    parameter = torch.nn.Parameter(torch.zeros(1))
    steps = Accumulator(torch.optim.SGD([parameter], lr=1.0))
    for gradient, complete, expected in (
        (1.0, False, 0.0),
        (3.0, True, -4.0),  # 1 + 3
        (5.0, True, -9.0),  # what came before is forgotten
    ):
        steps.begin()
        (parameter * gradient).sum().backward()
        steps.finish(complete=complete)
        assert parameter.item() == expected


@pytest.mark.parametrize("protection", [NoNoise(), Marvell(s=4.0), Residual(sigma=2.0)])
def test_bfloat16_autocast_trains_and_keeps_weights_in_float32(pair, protection):
    top_half, bottom_half = run_pair(
        *pair, protection=protection, compute=Compute(autocast=torch.bfloat16)
    )
    assert all(p.dtype == torch.float32 for p in bottom_half.bottom.parameters())
    exact = run_pair(*pair, protection=protection)[0]
    assert abs(top_half.test.loss - exact.test.loss) < 0.1
    assert top_half.test.loss != exact.test.loss


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns about its own parts
def test_compiled_halves_train_what_plain_ones_do(pair):
    # The first import of the compiler is not safe in two threads at once, as this test runs them.
    torch.compile(torch.nn.Linear(1, 1))(torch.ones(1, 1))
    plain = run_pair(*pair)[1].bottom
    compiled = run_pair(*pair, compute=Compute(compile=True))[1].bottom
    assert torch.allclose(weights(plain), weights(compiled), atol=1e-4)
    assert plain.state_dict().keys() == compiled.state_dict().keys()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_halves_train(pair):
    top_half, bottom_half = run_pair(*pair, compute=Compute(device="cuda"))
    assert next(bottom_half.bottom.parameters()).is_cuda
    assert top_half.held_out_logit.device.type == "cpu"


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="device"):
        Compute(device="abacus")


def images(records=120):
    g = torch.Generator().manual_seed(0)
    label, _ = tables(records)
    pixels = torch.randn(records, 3, 16, 16, generator=g)
    pixels[label.labels == 1, 0] += 1.0
    return label, TensorRecords("non-label party", label.ids, pixels)


def test_images_cross_a_cut_of_any_shape():
    label, other = images()
    g = torch.Generator().manual_seed(1)
    # 16 -> 8 -> 4 pixels; 4 channels of 4x4 are 64 numbers
    top_half, bottom_half = run_pair(
        label,
        other,
        label_terms=terms(cut_width=64, epochs=8),
        bottom=lambda own: conv_blocks(own.shape[0], 4, 2, g),
        top=lambda name, cut, own: ConvTop((4, 4, 4), own.width, 1, [8], g),
    )
    assert bottom_half.inputs.encoder is None
    assert top_half.test.auc > 0.8


def test_a_cut_of_another_size_is_named():
    label, other = images()
    g = torch.Generator().manual_seed(1)
    with pytest.raises(Exception, match="ended the session") as caught:
        run_pair(
            label,
            other,
            label_terms=terms(cut_width=63),
            bottom=lambda own: conv_blocks(own.shape[0], 4, 2, g),
        )
    assert "cut_width is 63" in str(caught.value.peer_error)


def test_tensor_records_follow_the_rules_of_a_table():
    good = torch.zeros(2, 3)
    with pytest.raises(DataError, match="unique"):
        TensorRecords("non-label party", ("a", "a"), good)
    with pytest.raises(DataError, match="2 records"):
        TensorRecords("non-label party", ("a", "b"), torch.zeros(3, 3))
    with pytest.raises(DataError, match="floating"):
        TensorRecords("non-label party", ("a", "b"), good.long())
    with pytest.raises(DataError, match="1 of 2"):
        TensorRecords("non-label party", ("a", "b"), torch.tensor([[0.0], [torch.nan]]))
    with pytest.raises(DataError, match="only the label party"):
        TensorRecords("non-label party", ("a", "b"), good, torch.tensor([0, 1]))
    records = TensorRecords("label party", ("a", "b"), torch.eye(2), torch.tensor([0, 1]))
    turned = records.ordered_by(["b", "a"])
    assert torch.equal(turned.features, torch.eye(2).flip(0))
    assert turned.labels.tolist() == [1, 0]


def label_party(table, **options):
    return LabelParty(
        table,
        terms(),
        options.pop("protection", NoNoise()),
        make_top,
        adam,
        noise=options.pop("noise", SeededNoise(0)),
        **options,
    )


def test_what_may_not_be_combined(pair, tmp_path):
    with pytest.raises(ConfigurationError, match="journal"):
        label_party(pair[0], persistence=Persistence.in_folder(tmp_path))
    with pytest.raises(ConfigurationError, match="canaries"):
        label_party(pair[0], persistence=Persistence.in_folder(tmp_path, "x"), canaries=5)
    planned = Residual(max_leak_auc=0.7, releases=1)
    with pytest.raises(ConfigurationError, match="planned for 1 releases"):
        label_party(pair[0], protection=planned)
    with pytest.raises(ConfigurationError, match="simulations only"):
        label_party(pair[0], protection=Marvell(s=4.0, statistics="batch"), noise=SecretNoise())


def test_checkpoints_keep_three_and_are_named_when_damaged(tmp_path):
    half = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(half.parameters(), lr=0.1)
    half(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    store = CheckpointStore(tmp_path)
    for step in (1, 2, 3, 4):
        store.save(step, {"half": half}, {"half": optimizer})
    assert store.steps == (2, 3, 4)
    other = torch.nn.Linear(2, 1)
    fresh = torch.optim.Adam(other.parameters(), lr=0.1)
    store.load(4, {"half": other}, {"half": fresh})
    for module, opt in ((half, optimizer), (other, fresh)):
        opt.zero_grad()
        module(torch.ones(1, 2)).sum().backward()
        opt.step()
    assert torch.equal(weights(half), weights(other))  # the optimizer's memory came along
    with pytest.raises(DataError, match=r"half\.safetensors"):
        store.load(4, {"half": torch.nn.Linear(3, 1)}, {})
    path = tmp_path / "step-0000000004" / "half.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"step-0000000004.half\.safetensors"):
        store.load(4, {"half": other}, {})


def test_groups_are_needed_at_both_parties_or_at_none(pair):
    label, other = pair
    grouped = PartyTable("label party", label.ids, label.features, label.labels, label.ids)
    with pytest.raises(ConfigurationError, match="groups"):
        run_pair(grouped, other, label_terms=terms())
    with pytest.raises(PeerEndedError) as caught:
        run_pair(grouped, other, label_terms=terms(grouped=True))
    assert "no groups" in str(caught.value.peer_error)
