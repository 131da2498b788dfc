import pytest
import torch

from cutlayer.errors import DataError
from cutlayer.transcript.tensor_file import read_tensor_file, same_bits, write_tensor_file


def test_tensors_that_share_memory_and_are_not_contiguous_are_kept(tmp_path):
    base = torch.arange(6.0).reshape(2, 3)
    write_tensor_file(tmp_path / "f", "test/1", {"a": base, "b": base.T, "c": base[0]})
    tensors, metadata = read_tensor_file(tmp_path / "f", "test/1", None, fix="")
    assert torch.equal(tensors["b"], base.T)
    assert torch.equal(tensors["c"], base[0])
    assert metadata == {"cutlayer": "test/1"}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    write_tensor_file(tmp_path / "f", "test/1", {"a": torch.zeros(2)})
    with pytest.raises(RuntimeError):
        write_tensor_file(tmp_path / "f", "test/1", {"a": torch.zeros(2, device="meta")})
    tensors, _ = read_tensor_file(tmp_path / "f", "test/1", ("a",), fix="")
    assert torch.equal(tensors["a"], torch.zeros(2))


def test_a_pickle_is_not_read(tmp_path):
    torch.save({"a": torch.zeros(2)}, tmp_path / "f")
    with pytest.raises(DataError, match=r"is damaged or no safetensors file .* Do this."):
        read_tensor_file(tmp_path / "f", "test/1", None, fix="Do this.")


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    with pytest.raises(DataError, match="is damaged or no safetensors file"):
        read_tensor_file(tmp_path, "test/1", None, fix="")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (torch.tensor([0.0, float("nan")]), True),
        (torch.tensor([-0.0, float("nan")]), False),
        (torch.tensor([[0.0, float("nan")]]), False),
        (torch.tensor([0.0, float("nan")]).double(), False),
    ],
)
def test_same_bits_looks_at_bits_shape_and_type(other, same):
    value = torch.tensor([0.0, float("nan")])
    assert same_bits({"a": value}, {"a": other}) is same
    assert not same_bits({"a": value}, {"b": value})
