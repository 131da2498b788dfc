import os

import pytest
import torch
from safetensors.torch import load_file

from cutlayer.durable import (
    PARTIAL,
    create_private,
    in_use,
    only_process,
    whole_file,
    write_tensors,
)
from cutlayer.errors import ConfigurationError, StorageError


def test_tensors_that_share_memory_are_kept_bit_for_bit(tmp_path):
    numbers = torch.tensor([1.0, -0.0, float("nan"), 5e-324], dtype=torch.float64)
    write_tensors(tmp_path / "kept", {"a": numbers, "b": numbers[1:]})
    kept = load_file(tmp_path / "kept")
    assert kept["a"].numpy().tobytes() == numbers.numpy().tobytes()
    assert kept["b"].numpy().tobytes() == numbers.numpy().tobytes()[8:]


def test_a_disk_without_room_for_tensors_is_one_typed_error_and_leaves_the_old_ones(
    tmp_path, largest_file
):
    path = tmp_path / "kept"
    write_tensors(path, {"a": torch.zeros(4)})
    before = path.read_bytes()
    largest_file(1024)
    with pytest.raises(StorageError, match=r"Cannot write .*kept: .*File too large"):
        write_tensors(path, {"a": torch.zeros(4096)})
    assert path.read_bytes() == before


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "folder" / "file"

    def write_half():
        with whole_file(path) as partial:
            partial.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert not path.exists()
    with whole_file(path) as partial:
        partial.write_text("whole")
    assert path.read_text() == "whole"
    assert not path.with_name(path.name + PARTIAL).exists()


@pytest.mark.parametrize("left_behind", [False, True])
def test_what_is_kept_is_for_its_owner_alone(tmp_path, left_behind):
    names = ("text", "tensors")
    for name in names:
        (tmp_path / name).touch(mode=0o644)  # as an older version wrote it
        if left_behind:
            (tmp_path / (name + PARTIAL)).touch(mode=0o644)
    with whole_file(tmp_path / "text") as partial:
        assert partial.stat().st_mode & 0o777 == 0o600  # before anything stands in it
        partial.write_text("who is a customer of both")
    write_tensors(tmp_path / "tensors", {"a": torch.zeros(2)})
    for name in names:
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_secret_is_its_owners_and_the_first_writer_wins(tmp_path):
    path = tmp_path / "secret"
    assert create_private(path, b"first") == b"first"
    assert create_private(path, b"second") == b"first"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize("left", [None, 0o666])
def test_a_lock_is_its_owners_whatever_the_umask(tmp_path, left):
    """Whoever may write a lock may hold it, and keep the party out."""
    lock = tmp_path / "lock"
    if left is not None:
        lock.touch()
        lock.chmod(left)
    before = os.umask(0)
    try:
        with only_process(tmp_path, "label party"):
            assert lock.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_folder_belongs_to_one_process_until_it_ends(tmp_path):
    folder = tmp_path / "new" / "folder"
    with only_process(folder, "label party"):
        message = r"^label party: another process is working on .*folder"
        with pytest.raises(ConfigurationError, match=message), only_process(folder, "label party"):
            pass
    assert not folder.parent.exists()  # nothing came to lie in it
    with only_process(folder, "label party"):
        (folder / "kept").touch()
    with only_process(folder, "label party"):
        assert in_use(folder)
    assert not in_use(folder)
    assert (folder / "kept").exists()
