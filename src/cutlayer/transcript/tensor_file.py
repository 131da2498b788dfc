"""A file of named tensors: written whole or not at all, checked when read, never pickled."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cutlayer.durable import write_tensors
from cutlayer.errors import DataError
from cutlayer.extras import needing

_KIND = "cutlayer"


def write_tensor_file(
    path: Path,
    kind: str,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors so that ``path`` holds either all of them or what it held before.

    Args:
        path: the safetensors file; its folder must exist.
        kind: what the file is, with a version, as ``release/1``; the reader asks for it.
        tensors: any dtypes and devices; kept bit for bit.
        metadata: short texts beside them.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    write_tensors(path, tensors, {**(metadata or {}), _KIND: kind})


def read_tensor_file(
    path: Path, kind: str, names: tuple[str, ...] | None, *, fix: str
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read what :func:`write_tensor_file` wrote.

    Args:
        path: the file.
        kind: what the file must be.
        names: the tensors that it must hold, no more and no less; ``None`` takes any.
        fix: what the reader can do when the file is of no use; ends the error message.

    Returns:
        Tensors on the CPU, and the metadata.

    Raises:
        DataError: the file is missing, damaged, of another kind, or holds other tensors.
    """
    with _opened(path, kind, fix) as file:
        metadata: dict[str, str] = file.metadata()
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if names is not None and set(tensors) != set(names):
        raise DataError(
            f"{path} must hold {', '.join(sorted(names))}, got {', '.join(sorted(tensors))}. {fix}"
        )
    return tensors, metadata


def read_tensor_head(path: Path, kind: str, *, fix: str) -> dict[str, str]:
    """The metadata of a file alone, without its tensors.

    Args:
        path: the file.
        kind: what the file must be.
        fix: what the reader can do when the file is of no use; ends the error message.

    Raises:
        DataError: the file is missing, damaged, or of another kind.
    """
    with _opened(path, kind, fix) as file:
        metadata: dict[str, str] = file.metadata()
    return metadata


@contextmanager
def _opened(path: Path, kind: str, fix: str) -> Iterator[Any]:
    """Open a file of this kind; what goes wrong while it is read is a damaged file."""
    with needing():
        from safetensors import SafetensorError, safe_open
    try:
        with safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get(_KIND)
            if found != kind:
                raise DataError(f"{path} must be of kind {kind!r}, got {found!r}. {fix}")
            yield file
    except FileNotFoundError as error:
        raise DataError(f"There is no {path}. {fix}") from error
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} is damaged or no safetensors file ({error}). {fix}") from error


def same_bits(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """Whether two sets of named tensors are alike to the last bit, NaN included."""
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and torch.equal(_as_bytes(left[name]), _as_bytes(right[name]))
        for name in left
    )


def _as_bytes(tensor: Tensor) -> Tensor:
    """The memory of a tensor as bytes."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
