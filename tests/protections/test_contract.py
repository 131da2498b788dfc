"""One contract for every registered protection."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from cutlayer.errors import ConfigurationError, ProtectionError, UnknownNameError
from cutlayer.protections import (
    PROTECTIONS,
    GradientProtection,
    Isotropic,
    Marvell,
    MaxNorm,
    NoNoise,
    Residual,
    Stage,
    parse_protection,
)
from cutlayer.rng import SecretNoise, SeededNoise

EXAMPLES = {
    "no_noise": NoNoise,
    "isotropic": lambda: Isotropic(t=1.0),
    "max_norm": MaxNorm,
    "marvell": lambda: Marvell(s=4.0),
    "residual": lambda: Residual(sigma=2.0),
}
KINDS = {"marvell": "model", "residual": "rigorous"}
"""What a protection may claim; a new entry needs a proof in docs/theory.md."""
GRADIENT = [name for name in EXAMPLES if isinstance(EXAMPLES[name](), GradientProtection)]
NOISY = [name for name in GRADIENT if name != "no_noise"]


def batch(examples=256, width=16, share=0.2, seed=0, scale=1.0):
    """Gradients as a network makes them: residual times a Jacobian row."""
    g = torch.Generator().manual_seed(seed)
    labels = (torch.rand(examples, generator=g) < share).long()
    labels[:2] = torch.tensor([0, 1])
    residual = torch.rand(examples, 1, generator=g) * 0.5 + 0.1
    residual = torch.where(labels[:, None] == 1, -residual, residual)
    jacobian = torch.randn(width, generator=g) + 0.1 * torch.randn(examples, width, generator=g)
    return scale * residual * jacobian, labels


def test_every_registered_protection_has_an_example_here():
    assert set(EXAMPLES) == set(PROTECTIONS)
    assert all(PROTECTIONS[name].name == name for name in PROTECTIONS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_states_stage_strength_and_guarantee(name):
    protection = EXAMPLES[name]()
    assert isinstance(protection.stage, Stage)
    assert protection.strength
    for releases in (1, 20):
        promised = protection.guarantee(releases)
        assert promised.grounds
        assert promised.releases == releases
        assert promised.kind == KINDS.get(name, "none")


@pytest.mark.parametrize("name", GRADIENT)
def test_only_a_guarantee_that_says_so_depends_on_the_batches_and_the_state_keeps_it(name):
    protection, fresh = EXAMPLES[name](), EXAMPLES[name]()
    gradient, labels = batch(scale=3.0)
    protection.perturb(gradient, labels, noise=SeededNoise(0))
    after = protection.guarantee(5)
    assert (after != fresh.guarantee(5)) == protection.guarantee_depends_on_state
    fresh.restore(protection.state())
    assert fresh.guarantee(5) == after


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_type_and_finiteness_are_kept(name, dtype):
    gradient, labels = batch()
    sent = EXAMPLES[name]().perturb(gradient.to(dtype), labels, noise=SeededNoise(0))
    assert sent.shape == gradient.shape
    assert sent.dtype == dtype
    assert torch.isfinite(sent).all()


@pytest.mark.parametrize("name", GRADIENT)
def test_the_same_noise_gives_the_same_message_and_the_input_is_not_changed(name):
    gradient, labels = batch()
    before = gradient.clone()
    first = EXAMPLES[name]().perturb(gradient, labels, noise=SeededNoise(7))
    again = EXAMPLES[name]().perturb(gradient, labels, noise=SeededNoise(7))
    assert torch.equal(first, again)
    assert torch.equal(gradient, before)


@pytest.mark.parametrize("name", NOISY)
def test_secret_noise_differs_every_time_whatever_torch_is_seeded_with(name):
    gradient, labels = batch()
    torch.manual_seed(0)
    first = EXAMPLES[name]().perturb(gradient, labels, noise=SecretNoise())
    torch.manual_seed(0)
    second = EXAMPLES[name]().perturb(gradient, labels, noise=SecretNoise())
    # max_norm leaves the longest row as it is; all others move
    assert int((first != second).any(dim=1).sum()) >= len(gradient) - 1


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize("scale", [1e-23, 1e3])
def test_the_message_scales_with_the_gradient(name, scale):
    gradient, labels = batch()
    plain = EXAMPLES[name]().perturb(gradient.double(), labels, noise=SeededNoise(1))
    scaled = EXAMPLES[name]().perturb(gradient.double() * scale, labels, noise=SeededNoise(1))
    assert torch.allclose(scaled / scale, plain, rtol=1e-6, atol=1e-9)
    small = EXAMPLES[name]().perturb((gradient * scale).float(), labels, noise=SeededNoise(1))
    assert torch.isfinite(small).all()


@pytest.mark.parametrize("name", GRADIENT)
def test_it_is_unbiased(name):
    # Mean over n draws; the standard error is taken from the draws themselves; five of them,
    # widened by what the maximum over 4096 coordinates of a normal sample may reach (4.8).
    gradient, labels = batch()
    source, n = SeededNoise(2), 400
    protection = EXAMPLES[name]()
    draws = torch.stack(
        [protection.perturb(gradient.double(), labels, noise=source) for _ in range(n)]
    )
    error = draws.std(dim=0) / n**0.5
    assert torch.all((draws.mean(dim=0) - gradient).abs() <= 6 * error + 1e-9)


@pytest.mark.parametrize("name", NOISY)
def test_a_zero_row_among_others_does_not_leave_as_zeros(name):
    gradient, labels = batch()
    gradient[[3, 10]] = 0.0
    labels[3], labels[10] = 0, 1
    sent = EXAMPLES[name]().perturb(gradient, labels, noise=SeededNoise(0))
    assert (sent[[3, 10]] != 0).any(dim=1).all()


@pytest.mark.parametrize("name", GRADIENT)
def test_width_one_and_one_example(name):
    protection = EXAMPLES[name]()
    gradient, labels = batch(width=1)
    protection.perturb(gradient, labels, noise=SeededNoise(0))
    one = protection.perturb(gradient[:1], labels[:1], noise=SeededNoise(0))
    assert one.shape == (1, 1)


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_of_one_class_is_perturbed_like_any_other(name, label):
    protection = EXAMPLES[name]()
    gradient, labels = batch()
    protection.perturb(gradient, labels, noise=SeededNoise(0))
    lone = torch.full_like(labels, label)
    sent = protection.perturb(gradient, lone, noise=SeededNoise(1))
    changed = (sent != gradient).any(dim=1)
    assert int(changed.sum()) >= (0 if name == "no_noise" else len(gradient) - 1)


@pytest.mark.parametrize("name", NOISY)
def test_noise_beyond_the_largest_number_is_refused_and_not_sent(name):
    """Of 256 rows up to 3e38, some with noise of the same size pass the 3.4e38 of float32."""
    gradient, labels = batch()
    gradient *= 3e38 / gradient.abs().max()
    with pytest.raises(ProtectionError, match="must be finite"):
        EXAMPLES[name]().perturb(gradient, labels, noise=SeededNoise(0))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_state_of_another_protection_is_refused(name):
    with pytest.raises(KeyError):
        EXAMPLES[name]().restore({"colour": torch.zeros(1)})


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_refused_with_a_count(name, value):
    gradient, labels = batch()
    gradient[[1, 5], 0] = value
    with pytest.raises(ProtectionError, match="2 of 256 rows"):
        EXAMPLES[name]().perturb(gradient, labels, noise=SeededNoise(0))


@pytest.mark.parametrize("name", GRADIENT)
def test_wrong_shapes_and_labels_are_refused(name):
    gradient, labels = batch()
    protection = EXAMPLES[name]()
    with pytest.raises(ValueError, match="labels"):
        protection.perturb(gradient, labels[:-1], noise=SeededNoise(0))
    with pytest.raises(ValueError, match="labels"):
        protection.perturb(gradient, labels + 1, noise=SeededNoise(0))
    with pytest.raises(ValueError, match="gradient"):
        protection.perturb(gradient[0], labels, noise=SeededNoise(0))
    with pytest.raises(ValueError, match="gradient"):
        protection.perturb(gradient[:0], labels[:0], noise=SeededNoise(0))


@pytest.mark.parametrize("name", GRADIENT)
def test_permuting_rows_with_equal_noise_free_parts_permutes_nothing_but_rows(name):
    # The statistics of a protection must not depend on the order of a batch's rows.
    gradient, labels = batch()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))

    class Still(SeededNoise):
        def normal(self, *shape, device="cpu"):
            return torch.ones(*shape, dtype=torch.float64)

    plain = EXAMPLES[name]().perturb(gradient.double(), labels, noise=Still(0))
    moved = EXAMPLES[name]().perturb(gradient[order].double(), labels[order], noise=Still(0))
    assert torch.allclose(moved, plain[order], rtol=1e-9, atol=1e-12)


class Holder(nn.Module):
    """A module that keeps its protection, as a module of one's own may."""

    def __init__(self, protection):
        super().__init__()
        self.protection = protection


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),  # noqa: S301
    "first_protocol": lambda p: pickle.loads(pickle.dumps(p, 0)),  # noqa: S301
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "torch_save": saved,
    "saved_module": lambda p: saved(Holder(p)).protection,
    "copied_module": lambda p: copy.deepcopy(Holder(p)).protection,
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_equal_and_goes_on_from_the_same_state(name, used, way):
    protection = EXAMPLES[name]()
    gradient, labels = batch()
    sends = name in GRADIENT
    if used and sends:
        protection.perturb(gradient, labels, noise=SeededNoise(0))
    elif used:
        protection.noisy_residual(gradient[:, 0], labels, noise=SeededNoise(0))
    copied = COPIES[way](protection)
    assert copied == protection
    assert copied.strength == protection.strength
    assert copied.guarantee(3) == protection.guarantee(3)
    before, after = protection.state(), copied.state()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    if sends and way != "copy":  # a shallow copy shares what batches leave behind
        few, mine = gradient[:20], labels[:20]
        sent = [p.perturb(few, mine, noise=SeededNoise(1)) for p in (protection, copied)]
        assert torch.equal(*sent)


def test_max_norm_moments():
    # E g~ = g is tested above; here E |g~|^2 = m^2 for every row, also a zero row.
    gradient, labels = batch(examples=8)
    gradient[2] = 0.0
    source, n = SeededNoise(0), 20000
    squares = torch.stack(
        [
            MaxNorm().perturb(gradient.double(), labels, noise=source).square().sum(1)
            for _ in range(n)
        ]
    )
    largest = gradient.double().norm(dim=1).max() ** 2
    error = squares.std(dim=0) / n**0.5
    assert torch.all((squares.mean(dim=0) - largest).abs() <= 5 * error + 1e-12)


def test_isotropic_power():
    # Each coordinate's noise has variance t/d max|g|^2: t = 2, d = 4, max|g|^2 = 9 gives 4.5.
    gradient = torch.tensor([[3.0, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    source, n = SeededNoise(0), 20000
    noise = torch.stack(
        [Isotropic(t=2.0).perturb(gradient, labels, noise=source) - gradient for _ in range(n)]
    )
    # the variance of n normals has standard error 4.5 sqrt(2 / n)
    assert torch.all((noise.var(dim=0) - 4.5).abs() <= 5 * 4.5 * (2 / n) ** 0.5)


def test_text_makes_protections_and_wrong_text_is_explained():
    assert parse_protection("no_noise", PROTECTIONS) == NoNoise()
    assert parse_protection("marvell:s=4", PROTECTIONS) == Marvell(s=4)
    batchwise = parse_protection("marvell: s = 0.5, statistics = batch", PROTECTIONS)
    assert batchwise == Marvell(s=0.5, statistics="batch")
    planned = parse_protection("residual:max_leak_auc=0.7", PROTECTIONS, planned_releases=10)
    assert planned == Residual(max_leak_auc=0.7, releases=10)
    with pytest.raises(UnknownNameError, match="Known: no_noise"):
        parse_protection("marvel:s=4", PROTECTIONS)
    with pytest.raises(ConfigurationError, match="exactly one of s"):
        parse_protection("marvell", PROTECTIONS)


def test_a_taken_name_is_refused():
    with pytest.raises(ConfigurationError, match="exists"):
        PROTECTIONS.register("marvell", Marvell)
