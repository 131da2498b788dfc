import pytest
import torch
from torch import nn

from cutlayer.errors import DataError
from cutlayer.transcript import NonLabelHalf, NonLabelHalfWriter

FEATURES = torch.arange(12.0).reshape(4, 3)


def bottom(width: int = 2) -> nn.Module:
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))


def test_features_and_the_weights_of_each_step_come_back_bit_for_bit(tmp_path):
    writer = NonLabelHalfWriter(tmp_path, FEATURES)
    halves = {step: bottom() for step in (0, 5)}
    for step, half in halves.items():
        writer.write(step, half)
    handed_over = NonLabelHalf(tmp_path)
    assert torch.equal(handed_over.features, FEATURES)
    assert handed_over.steps == (0, 5)
    found = bottom()
    for step, half in halves.items():
        handed_over.load_bottom(step, found)
        for name, value in half.state_dict().items():
            assert torch.equal(found.state_dict()[name], value)


def test_later_training_does_not_change_what_was_kept(tmp_path):
    half = bottom()
    before = half[0].weight.detach().clone()
    NonLabelHalfWriter(tmp_path, FEATURES).write(0, half)
    half[0].weight.data.zero_()
    NonLabelHalf(tmp_path).load_bottom(0, half)
    assert torch.equal(half[0].weight, before)


def test_the_sample_of_steps_follows_the_transcript(tmp_path):
    writer = NonLabelHalfWriter(tmp_path, FEATURES, every=4)
    for step in range(9):
        writer.write(step, bottom())
    assert NonLabelHalf(tmp_path).steps == (0, 4, 8)


def test_images_and_codes_are_features_too(tmp_path):
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    NonLabelHalfWriter(tmp_path, images)
    assert NonLabelHalf(tmp_path).features.dtype == torch.uint8


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (torch.zeros(0, 3), "features must have shape"),
        (torch.zeros(3), "features must have shape"),
        (torch.tensor([[float("nan")]]), "features must be finite"),
    ],
)
def test_features_of_no_use_are_refused(tmp_path, features, message):
    with pytest.raises(ValueError, match=message):
        NonLabelHalfWriter(tmp_path / "half", features)
    assert not (tmp_path / "half").exists()


def test_another_architecture_is_refused_in_words(tmp_path):
    NonLabelHalfWriter(tmp_path, FEATURES).write(0, bottom(width=2))
    with pytest.raises(DataError, match=r"does not fit.*Build the bottom with the settings"):
        NonLabelHalf(tmp_path).load_bottom(0, bottom(width=5))


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"There is no .*features.safetensors. Ask the non-label"):
        NonLabelHalf(tmp_path)
    NonLabelHalfWriter(tmp_path, FEATURES).write(3, bottom())
    handed_over = NonLabelHalf(tmp_path)
    with pytest.raises(DataError, match=r"There is no .*bottom-0000000004"):
        handed_over.load_bottom(4, bottom())
    (tmp_path / "bottom-0000000003.safetensors").rename(tmp_path / "bottom-0000000004.safetensors")
    with pytest.raises(DataError, match="holds step 3, not 4"):
        handed_over.load_bottom(4, bottom())
    (tmp_path / "features.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(DataError, match=r"features.safetensors is damaged"):
        NonLabelHalf(tmp_path)
