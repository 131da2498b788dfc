"""Arrays in files that somebody else wrote: ``.npy``, ``.npz`` and ``.safetensors``.

Nothing is taken on trust. The heads of a file are read first, in bounded memory, and what they
announce is compared with the file; arrays are read only if the reader asks for them then. Nothing
is unpickled or unpacked to disk.
"""

import io
import json
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from cutlayer.errors import DataError

Array = NDArray[np.generic]

SUFFIXES = (".npy", ".npz", ".safetensors")

_MOST_ARRAYS = 64
_LONGEST_NUMPY_HEAD = 10_000
_LONGEST_TENSOR_HEAD = 1 << 20
_LONGEST_ZIP_LIST = 1 << 20
_MAGIC = b"\x93NUMPY"
_ENCRYPTED = 1
"""Flag of a member of a zip archive."""
_KINDS = "fiubUS"
"""Of NumPy's types: floats, whole numbers, truth values and texts."""
_AS_NUMPY = {
    "F64": "f8",
    "F32": "f4",
    "F16": "f2",
    "BOOL": "?",
    **{f"{kind}{8 * size}": f"{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    "BF16": "f4",  # NumPy lacks these three; float32 holds each of their values
    "F8_E4M3": "f4",
    "F8_E5M2": "f4",
}
"""Types of safetensors, and as what they are read."""
_STORED_BYTES = {"BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
"""Of a value in the file, where it is read as another type."""
_FLOATS_OF_NUMPY = (torch.float16, torch.float32, torch.float64)


@dataclass(frozen=True)
class ArrayHead:
    """What a file announces of one array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How long it is; a lone number has none."""
        return self.shape[0] if self.shape else 0

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayFile:
    """One file of arrays, of which only the heads have been read.

    Args:
        path: a ``.npy`` file, whose array has the file's name, or ``.npz`` or ``.safetensors``.

    Raises:
        DataError: there is no such file, it is damaged or of another kind, it announces more than
            it holds, or it holds something else than numbers and texts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise DataError(f"There is no {path}. Name another file.")
        if not path.is_file():
            raise DataError(f"{path} must be a regular file, not a folder, pipe or device.")
        if path.suffix not in SUFFIXES:
            raise DataError(f"{path} must be a {', '.join(SUFFIXES[:2])} or {SUFFIXES[2]} file.")
        with _sound(path):
            self.heads = dict(_HEADS[path.suffix](path))

    def read(self) -> dict[str, Array]:
        """The arrays by name.

        Raises:
            DataError: the file is damaged, or there is not enough memory.
        """
        with _sound(self.path):
            return dict(_ARRAYS[self.path.suffix](self.path))


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Turn whatever the readers say of a damaged file into one error."""
    try:
        yield
    except MemoryError as error:
        raise DataError(
            f"{path} needs more memory than there is. Give it as several smaller files, or use a "
            "larger machine."
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}). Look at its rights and its disk."
        ) from error
    except (
        EOFError,
        ValueError,
        RuntimeError,  # also what zipfile has not implemented
        struct.error,
        zipfile.BadZipFile,
        zlib.error,
        SafetensorError,
    ) as error:
        kind = "safetensors" if path.suffix == ".safetensors" else "NumPy"
        reason = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
        raise DataError(
            f"{path} is damaged or no {kind} file ({reason}). Write it again."
        ) from error


def _numpy_heads(path: Path) -> Iterator[tuple[str, ArrayHead]]:
    """The head of a ``.npy`` file."""
    with path.open("rb") as file:
        head = _numpy_head(path, path.stem, file)
        _require_bytes(path, path.stem, head.bytes, path.stat().st_size - file.tell())
    yield path.stem, head


def _numpy_arrays(path: Path) -> Iterator[tuple[str, Array]]:
    """The array of a ``.npy`` file."""
    with path.open("rb") as file:
        yield path.stem, np.lib.format.read_array(file, allow_pickle=False)


def _zip_heads(path: Path) -> Iterator[tuple[str, ArrayHead]]:
    """The heads of a ``.npz`` file."""
    with _zip_archive(path) as archive:
        for name, member in _members(path, archive):
            with archive.open(member) as stream:
                head = _numpy_head(path, name, stream)
                _require_bytes(path, name, head.bytes, member.file_size - stream.tell())
            yield name, head


def _zip_arrays(path: Path) -> Iterator[tuple[str, Array]]:
    """The arrays of a ``.npz`` file."""
    with _zip_archive(path) as archive:
        for name, member in _members(path, archive):
            with archive.open(member) as stream:
                yield name, np.lib.format.read_array(stream, allow_pickle=False)
                stream.read(1)  # the checksum is compared at the end of a member


@contextmanager
def _zip_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive whose list of members is short enough to be read."""
    with path.open("rb") as file:
        short = _ShortReads(file)
        with zipfile.ZipFile(short) as archive:
            short.longest = None
            yield archive


class _ShortReads:
    """A file whose list of members ``zipfile`` may read, unless it is longer than any of ours."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.longest: int | None = _LONGEST_ZIP_LIST

    def read(self, size: int = -1) -> bytes:
        """Bytes from here on."""
        if self.longest is None:
            return self._file.read(size)
        found = self._file.read(self.longest + 1 if size < 0 else min(size, self.longest + 1))
        if len(found) > self.longest:
            raise ValueError(f"its list of arrays has more than {self.longest:,} bytes")
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    """The arrays of an archive by name, as NumPy writes them."""
    members = archive.infolist()
    _require_few(path, len(members))
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise DataError(
                f"{path} holds {name!r}, and a .npz file holds NAME.npy alone. Write it with "
                "numpy.savez."
            )
        if member.flag_bits & _ENCRYPTED:
            raise DataError(f"{path}: array {name!r} is encrypted. Write it with numpy.savez.")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(
                f"{path}: array {name!r} is compressed in an unknown way. Write it with "
                "numpy.savez or numpy.savez_compressed."
            )
        yield name, member
    if len({member.filename for member in members}) < len(members):
        raise DataError(f"{path} holds an array twice. Leave one out.")


def _numpy_head(path: Path, name: str, stream: IO[bytes]) -> ArrayHead:
    """The head of an array as NumPy writes it; leaves the stream where the values begin."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != _MAGIC or start[6] not in (1, 2):
        raise ValueError(f"array {name!r} does not begin as NumPy's do")
    layout, read = (
        ("<H", np.lib.format.read_array_header_1_0)
        if start[6] == 1
        else ("<I", np.lib.format.read_array_header_2_0)
    )
    length = stream.read(struct.calcsize(layout))
    (size,) = struct.unpack(layout, length)
    if size > _LONGEST_NUMPY_HEAD:
        raise ValueError(f"the head of array {name!r} has {size:,} bytes")
    text = stream.read(size)
    try:
        shape, _, dtype = read(io.BytesIO(length + text))
    except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(f"the head of array {name!r} cannot be read") from error
    if dtype.hasobject:
        raise DataError(
            f"{path}: array {name!r} holds Python objects, which are never unpickled. Save plain "
            "numbers and texts."
        )
    if dtype.kind not in _KINDS or dtype.subdtype is not None:
        raise DataError(
            f"{path}: array {name!r} must hold numbers or texts, got {str(dtype)[:80]}. Convert it."
        )
    return _checked_head(path, name, dtype, shape)


def _tensor_heads(path: Path) -> Iterator[tuple[str, ArrayHead]]:
    """The heads of a safetensors file."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        if size > _LONGEST_TENSOR_HEAD:
            raise ValueError(f"its head has {size:,} bytes")
        text = file.read(size)
    if len(text) < size:
        raise ValueError("it ends within its head")
    try:
        listed = json.loads(text)
    except RecursionError as error:
        raise ValueError("its head cannot be read") from error
    if not isinstance(listed, dict):
        raise ValueError("its head lists no arrays")
    listed.pop("__metadata__", None)
    _require_few(path, len(listed))
    for name, about in listed.items():
        yield name, _tensor_head(path, name, about, path.stat().st_size - 8 - size)


def _tensor_head(path: Path, name: str, about: object, held: int) -> ArrayHead:
    """What a safetensors file says of one array, whose values lie within so many bytes."""
    match about:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise ValueError(f"its head does not describe array {name!r}")
    if kind not in _AS_NUMPY:
        raise DataError(
            f"{path}: array {name!r} must hold plain numbers, got {kind[:80]}. Convert it to "
            "float32 or int64."
        )
    dtype = np.dtype(_AS_NUMPY[kind])
    head = _checked_head(path, name, dtype, tuple(shape))
    stored = math.prod(head.shape) * _STORED_BYTES.get(kind, dtype.itemsize)
    if not 0 <= begin <= end <= held:
        raise ValueError(f"array {name!r} lies outside of the file")
    _require_bytes(path, name, stored, end - begin)
    return head


def _tensor_arrays(path: Path) -> Iterator[tuple[str, Array]]:
    """The arrays of a safetensors file."""
    for name, tensor in load_file(path).items():
        yield name, _as_array(tensor)


def _as_array(tensor: Tensor) -> Array:
    """A tensor as an array; as float32 where NumPy lacks its type."""
    is_lacking = tensor.dtype.is_floating_point and tensor.dtype not in _FLOATS_OF_NUMPY
    found: Array = (tensor.float() if is_lacking else tensor).numpy()
    return found


def _checked_head(path: Path, name: str, dtype: np.dtype[Any], shape: tuple[Any, ...]) -> ArrayHead:
    """A head whose shape is one."""
    if not all(type(length) is int and length >= 0 for length in shape):
        raise DataError(
            f"{path}: array {name!r} must have a shape of whole numbers from 0, got "
            f"{str(shape)[:80]}. Write it again."
        )
    return ArrayHead(dtype, shape)


def _require_few(path: Path, arrays: int) -> None:
    """Refuse a file of more arrays than anybody has a name for."""
    if arrays > _MOST_ARRAYS:
        raise DataError(f"{path} must hold at most {_MOST_ARRAYS} arrays, got {arrays:,}.")


def _require_bytes(path: Path, name: str, announced: int, held: int) -> None:
    """Refuse an array that its file does not hold."""
    if announced > held:
        raise DataError(
            f"{path}: array {name!r} announces {announced:,} bytes, and the file holds {held:,} "
            "of them. It is damaged; write it again."
        )


_HEADS = {".npy": _numpy_heads, ".npz": _zip_heads, ".safetensors": _tensor_heads}
_ARRAYS = {".npy": _numpy_arrays, ".npz": _zip_arrays, ".safetensors": _tensor_arrays}
