import pytest
import torch
from torch import nn

from cutlayer.audits import FirstLayerCarrier, GroundTruth, Hint, audit_leak
from cutlayer.errors import DataError
from cutlayer.transcript import NonLabelHalf, NonLabelHalfWriter, Release

FEATURES = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))


def bottom(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


@pytest.fixture
def carrier(tmp_path):
    writer = NonLabelHalfWriter(tmp_path, FEATURES)
    for step in (0, 1):
        writer.write(step, bottom(step))
    return FirstLayerCarrier(NonLabelHalf(tmp_path), bottom(99))


def release(step: int, records: list[int]) -> Release:
    gradient = torch.randn(len(records), 2, generator=torch.Generator().manual_seed(step))
    return Release(step, step, torch.tensor(records), torch.zeros(len(records), 2), gradient)


def by_hand(step: int, record: int, gradient: torch.Tensor) -> torch.Tensor:
    """Chain rule: W1 has width 5; d tanh = 1 - tanh^2; then the second layer transposed."""
    first, _, second = bottom(step)
    hidden = torch.tanh(first(FEATURES[record]))
    return (gradient @ second.weight) * (1 - hidden.square())


@pytest.mark.parametrize("step", [1, 0])
def test_each_step_is_carried_by_its_own_weights_and_each_record_by_its_features(carrier, step):
    sent, hint = release(step, [4, 17, 9]), Hint(9, torch.tensor([1.0, -1.0]))
    carried, known = carrier(sent, hint)
    assert (carried.step, carried.epoch) == (step, step)
    assert torch.equal(carried.records, sent.records)
    for row, record in enumerate((4, 17, 9)):
        expected = by_hand(step, record, sent.gradient[row])
        assert torch.allclose(carried.gradient[row], expected, atol=1e-6)
    assert known.record == 9
    assert torch.allclose(known.gradient, by_hand(step, 9, hint.gradient), atol=1e-6)


def test_no_hint_stays_no_hint(carrier):
    assert carrier(release(0, [1, 2]), None)[1] is None


def test_steps_and_records_that_were_not_handed_over_are_named(carrier):
    with pytest.raises(DataError, match=r"There is no .*bottom-0000000007"):
        carrier(release(7, [1, 2]), None)
    with pytest.raises(ValueError, match="a row for record 20, got 20 rows"):
        carrier(release(0, [1, 20]), None)


def test_an_audit_measures_both_layers(carrier):
    labels = (torch.arange(20) % 4 == 0).long()
    gradient = (0.25 - labels.float())[:, None] * torch.tensor([1.0, 2.0])
    sent = Release(0, 0, torch.arange(20), torch.zeros(20, 2), gradient)
    hints = {0: Hint(4, gradient[4])}
    audit = audit_leak([sent], GroundTruth(labels), hints=hints, first_layer=carrier)
    cosine = {m.layer: m.leak_auc for m in audit.measurements if m.attack == "cosine"}
    assert cosine["cut"] == 1.0
    assert cosine["first"] == 1.0  # tanh keeps every sign of the chain rule
