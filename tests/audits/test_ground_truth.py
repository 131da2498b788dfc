import pytest
import torch
from safetensors.torch import save_file

from cutlayer.audits import GroundTruth, read_ground_truth, write_ground_truth
from cutlayer.errors import DataError


@pytest.mark.parametrize("canaries", [None, torch.tensor([True, False, True])])
def test_comes_back_as_it_was(tmp_path, canaries):
    write_ground_truth(GroundTruth(torch.tensor([1, 0, -1]), canaries), tmp_path / "truth")
    found = read_ground_truth(tmp_path / "truth")
    assert found.labels.tolist() == [1, 0, -1]
    assert found.labels.dtype == torch.int8
    assert (found.canaries is None) == (canaries is None)
    assert canaries is None or torch.equal(found.canaries, canaries)


def test_audited_are_known_labels_and_canaries_alone_if_there_are_any():
    labels = torch.tensor([1, 0, -1])
    assert GroundTruth(labels).audited.tolist() == [True, True, False]
    canaries = torch.tensor([False, True, True])
    assert GroundTruth(labels, canaries).audited.tolist() == [False, True, False]
    assert len(GroundTruth(labels)) == 3


@pytest.mark.parametrize(
    ("labels", "canaries", "message"),
    [
        (torch.tensor([0, 2]), None, "labels must hold only 0 and 1, got the values 0, 2"),
        (torch.tensor([[0, 1]]), None, r"labels must have shape \(2,\)"),
        (torch.tensor([0, 1]), torch.tensor([True]), r"canaries must have shape \(2,\)"),
        (torch.tensor([0, 1]), torch.tensor([1, 0]), "canaries must be a boolean mask"),
        (torch.tensor([0, 1]), torch.tensor([False, False]), "with 0 marked"),
    ],
)
def test_a_truth_of_no_use_is_refused(labels, canaries, message):
    with pytest.raises(ValueError, match=message):
        GroundTruth(labels, canaries)


def test_missing_damaged_and_wrong_files_are_named(tmp_path):
    path = tmp_path / "truth"
    with pytest.raises(DataError, match=r"There is no .*truth. Give the truth"):
        read_ground_truth(path)
    path.write_bytes(b"\xff" * 50)
    with pytest.raises(DataError, match="truth is damaged"):
        read_ground_truth(path)
    save_file({"labels": torch.tensor([3])}, path, {"cutlayer": "audit.truth/1"})
    with pytest.raises(DataError, match="no valid truth: labels must hold only 0 and 1"):
        read_ground_truth(path)
    save_file({"answers": torch.tensor([1])}, path, {"cutlayer": "audit.truth/1"})
    with pytest.raises(DataError, match="no valid truth"):
        read_ground_truth(path)
