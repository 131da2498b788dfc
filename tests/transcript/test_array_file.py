"""Files of arrays from outside: damaged, lying, huge, or made to run code."""

import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cutlayer.errors import DataError
from cutlayer.transcript.array_file import ArrayFile


def npy(head, *, version=1, values=b""):
    """A ``.npy`` file by its format: magic, version, length of the head, head, values."""
    text = head.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + values


def head(descr="'<f8'", shape="(2, 3)", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


def tensors(listed, values=b"", *, size=None):
    """A safetensors file by its format: length of the head, head as JSON, values."""
    text = listed if isinstance(listed, bytes) else json.dumps(listed).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + values


def about(dtype="F32", shape=(2,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def archive(*members, compression=zipfile.ZIP_STORED, flags=0):
    """A zip archive of (name, bytes)."""
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", compression) as file:
        for name, content in members:
            file.writestr(name, content)
    content = bytearray(kept.getvalue())
    if flags:  # of each member, in its own head and in the list at the end
        for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = content.find(mark)
            while at >= 0:
                content[at + place] |= flags
                at = content.find(mark, at + 1)
    return bytes(content)


VALUES = np.arange(6.0).tobytes()
SOUND = npy(head(), values=VALUES)


def test_what_is_announced_is_read(tmp_path):
    matrix = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "gradient.npy", matrix)
    np.savez_compressed(tmp_path / "all.npz", gradient=matrix, ids=np.array(["a", "béta"]))
    found = ArrayFile(tmp_path / "gradient.npy")
    assert (found.heads["gradient"].shape, found.heads["gradient"].bytes) == ((2, 3), 48)
    assert found.read()["gradient"].tolist() == [[0, 1, 2], [3, 4, 5]]
    found = ArrayFile(tmp_path / "all.npz")
    assert {name: head.bytes for name, head in found.heads.items()} == {"gradient": 48, "ids": 32}
    assert found.read()["ids"].tolist() == ["a", "béta"]


@pytest.mark.parametrize(
    "layout", [">f8", "<f8", ">f4", "<f2", ">i8", "<u4", "|i1", "|b1", "<U3", "|S2"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_order_of_bytes_and_axes_is_read(tmp_path, layout, order):
    matrix = np.array([[0, 1, 2], [3, 4, 5]], dtype=layout, order=order)
    np.save(tmp_path / "a.npy", matrix)
    np.savez(tmp_path / "a.npz", a=matrix)
    for name in ("a.npy", "a.npz"):
        assert ArrayFile(tmp_path / name).read()["a"].tolist() == matrix.tolist()


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_type_that_numpy_lacks_is_read_as_float32(tmp_path, kind):
    # Halves and small powers of two are exact in every one of the three.
    matrix = torch.tensor([[0.5, -2.0], [1.0, 0.0]])
    save_file({"gradient": matrix.to(getattr(torch, kind))}, tmp_path / "a.safetensors")
    found = ArrayFile(tmp_path / "a.safetensors")
    assert found.heads["gradient"].bytes == 16  # in memory
    read = found.read()["gradient"]
    assert read.dtype == np.float32
    assert read.tolist() == matrix.tolist()


NUMPY_HEADS = {
    "a head of another library": (b"\x80\x04\x95pickle", "does not begin as NumPy's do"),
    "nothing": (b"", "does not begin"),
    "an unknown version": (npy(head(), version=3)[:6] + b"\x09" + SOUND[7:], "does not begin"),
    "a head of 4 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "has 4,294,967,295 bytes"),
    "a head that ends early": (SOUND[:20], "is damaged"),
    "a head without end": (npy("{'descr': '<f8'"), "is damaged"),
    "a deep head": (npy("(" * 9000), "is damaged"),
    "a calculation": (npy("__import__('os').mkdir('owned')"), "is damaged"),
    "a calculation for a type": (npy(head("__import__('os').mkdir('owned')")), "is damaged"),
    "1e13 rows": (npy(head(shape="(10000000000000, 3)"), values=VALUES), "announces 240,000,000,"),
    "a row too many": (npy(head(shape="(3, 3)"), values=VALUES), "announces 72 bytes.* holds 48 "),
    "a negative shape": (npy(head(shape="(-2, 3)"), values=VALUES), "whole numbers from 0"),
    "two negative lengths": (npy(head(shape="(-2, -3)"), values=VALUES), "whole numbers from 0"),
    "a truth value for a length": (npy(head(shape="(True, 3)"), values=VALUES), "whole numbers"),
    "a text for a shape": (npy(head(shape="'23'"), values=VALUES), "is damaged"),
    "objects": (npy(head("'|O'"), values=b"cos\nsystem\n(S'mkdir owned'\ntR."), "never unpickled"),
    "objects in a structure": (npy(head("[('a', '|O')]"), values=VALUES), "never unpickled"),
    "a structure": (npy(head("[('a', '<f8')]"), values=VALUES), "must hold numbers or texts"),
    "arrays in an array": (npy(head("('<f8', (3,))", "(2,)"), values=VALUES), "numbers or texts"),
    "complex numbers": (npy(head("'<c16'", "(3,)"), values=VALUES), "must hold numbers or texts"),
    "times": (npy(head("'<M8[s]'"), values=VALUES), "must hold numbers or texts"),
    "raw bytes": (npy(head("'|V2'", "(24,)"), values=VALUES), "must hold numbers or texts"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), NUMPY_HEADS.values(), ids=NUMPY_HEADS)
@pytest.mark.parametrize("packed", [False, True], ids=["npy", "npz"])
def test_a_head_of_numpy_that_lies_is_refused(tmp_path, content, message, packed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("a.npz" if packed else "a.npy")
    path.write_bytes(archive(("a.npy", content)) if packed else content)
    with pytest.raises(DataError, match=message) as caught:
        ArrayFile(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400
    assert [one.name for one in tmp_path.iterdir()] == [path.name]  # nothing ran


def test_a_bomb_is_announced_and_not_unpacked(tmp_path):
    """A quarter of a gigabyte of zeros in a small file: its head says so, and no more is read."""
    path = tmp_path / "a.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("gradient.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy(head(shape="(32768, 1024)")))
        for _ in range(256):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    assert ArrayFile(path).heads["gradient"].bytes == 256 << 20


ARCHIVES = {
    "no archive": (b"PK not really", "is damaged or no NumPy file"),
    "a part of one": (archive(("a.npy", SOUND))[:-30], "is damaged or no NumPy file"),
    "its end alone": (archive(("a.npy", SOUND))[-22:], "is damaged or no NumPy file"),
    "a pickle": (archive(("data.pkl", b"cos\nsystem\n(S'ls'\ntR.")), "NAME.npy alone"),
    "an archive": (archive(("a.npz", archive(("a.npy", SOUND)))), "NAME.npy alone"),
    "a folder": (archive(("a/", b"")), "NAME.npy alone"),
    "65 arrays": (archive(*[(f"{i}.npy", SOUND) for i in range(65)]), "at most 64 arrays, got 65"),
    "20,000 arrays": (archive(*[(f"{i}.npy", b"") for i in range(20_000)]), "its list of arrays"),
    "an encrypted array": (archive(("a.npy", SOUND), flags=1), "'a' is encrypted"),
    "LZMA": (archive(("a.npy", SOUND), compression=zipfile.ZIP_LZMA), "in an unknown way"),
    "a patch": (archive(("a.npy", SOUND), flags=0x20), "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_of_something_else_is_refused(tmp_path, content, message):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        ArrayFile(path)


def test_a_name_with_a_path_is_a_name(tmp_path):
    """Nothing is unpacked to disk, so it can lead nowhere."""
    (tmp_path / "a.npz").write_bytes(archive(("../../a.npy", SOUND)))
    assert list(ArrayFile(tmp_path / "a.npz").read()) == ["../../a"]
    assert [one.name for one in tmp_path.iterdir()] == ["a.npz"]


def test_an_array_twice_is_refused(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate"):
        content = archive(("a.npy", SOUND), ("a.npy", SOUND))
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match="holds an array twice"):
        ArrayFile(tmp_path / "a.npz")


def test_values_that_changed_in_an_archive_are_noticed(tmp_path):
    content = archive(("a.npy", SOUND))
    place = content.index(VALUES)
    changed = content[:place] + bytes(47) + b"\x40" + content[place + 48 :]
    (tmp_path / "a.npz").write_bytes(changed)
    with pytest.raises(DataError, match="CRC-32"):
        ArrayFile(tmp_path / "a.npz").read()


TENSORS = {
    "nothing": (b"", "is damaged or no safetensors file"),
    "a head of 16 EB": (tensors({}, size=2**64 - 1), "its head has 18,446,744,073,709,"),
    "a head that ends early": (tensors({"a": about()}, size=500), "ends within its head"),
    "a deep head": (tensors(b"[" * 200_000), "head"),
    "a list": (tensors(b"[]"), "lists no arrays"),
    "no text": (tensors(b"\xff\xfe{}"), "is damaged"),
    "a number for an array": (tensors({"a": 3}), "does not describe array 'a'"),
    "no shape": (tensors({"a": {"dtype": "F32", "data_offsets": [0, 8]}}), "does not describe"),
    "one offset": (tensors({"a": about() | {"data_offsets": [0]}}), "does not describe"),
    "a negative offset": (tensors({"a": about(begin=-8)}, bytes(8)), "lies outside"),
    "an end before its begin": (tensors({"a": about(begin=8, end=0)}, bytes(8)), "lies outside"),
    "more than there is": (tensors({"a": about(end=800)}, bytes(8)), "lies outside"),
    "a huge shape": (tensors({"a": about(shape=[10**13])}, bytes(8)), "announces 40,000,000,000,"),
    "a negative shape": (tensors({"a": about(shape=[-2])}, bytes(8)), "whole numbers from 0"),
    "half a row": (tensors({"a": about(shape=[1.5])}, bytes(8)), "whole numbers from 0"),
    "complex numbers": (tensors({"a": about("C64", [1])}, bytes(8)), "plain numbers, got C64"),
    "narrow floats": (tensors({"a": about("F4", [16])}, bytes(8)), "plain numbers, got F4"),
    "65 arrays": (tensors({f"a{i}": about(shape=[0], end=0) for i in range(65)}), "at most 64"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), TENSORS.values(), ids=TENSORS)
def test_a_head_of_safetensors_that_lies_is_refused(tmp_path, content, message):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        ArrayFile(path)


@pytest.mark.parametrize(
    "listed",
    [
        {"a": about(), "b": about()},  # the same bytes twice
        {"a": about(), "b": about(begin=4, end=12)},
        {"a": about(), "b": about(begin=12, end=20)},  # with a hole
    ],
)
def test_arrays_that_overlap_are_refused_when_they_are_read(tmp_path, listed):
    (tmp_path / "a.safetensors").write_bytes(tensors(listed, bytes(20)))
    with pytest.raises(DataError, match="is damaged"):
        ArrayFile(tmp_path / "a.safetensors").read()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path, suffix):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    (tmp_path / f"device{suffix}").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "device"):
        with pytest.raises(DataError, match="must be a regular file"):
            ArrayFile(tmp_path / f"{name}{suffix}")
    with pytest.raises(DataError, match="There is no"):
        ArrayFile(tmp_path / f"nothing{suffix}")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, suffix):
    matrix = np.arange(6.0).reshape(2, 3)
    path = tmp_path / f"a{suffix}"
    if suffix == ".safetensors":
        save_file({"a": torch.from_numpy(matrix)}, path)
    else:
        (np.save if suffix == ".npy" else np.savez)(path, matrix)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            ArrayFile(path).read()
