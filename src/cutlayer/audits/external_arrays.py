"""The arrays of another framework's transcript: which files hold them, and whether they fit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from cutlayer.errors import DataError
from cutlayer.transcript.array_file import Array, ArrayFile, ArrayHead

SUFFIXES = (".npz", ".safetensors")
INFERENCE = ("inference_activation", "inference_labels")
"""Names of the two arrays of an inference."""

_OTHER_NAMES = {
    "gradients": "gradient",
    "records": "ids",
    "label": "labels",
    "steps": "step",
    "epochs": "epoch",
    "activations": "activation",
}
_NEEDED = ("gradient", "ids", "labels", "step", "epoch")
_OPTIONAL = ("activation", "features")

Entry = TypeVar("Entry")


def is_external(path: Path) -> bool:
    """Whether a path looks like a transcript of another framework."""
    if path.is_dir():
        return any(path.glob("*.npy")) or any(path.glob("*.npz")) or _safetensors_alone(path)
    return path.suffix in (*SUFFIXES, ".npy", ".pt", ".pkl", ".csv", ".parquet")


def read_arrays(path: Path, max_bytes: int | None) -> dict[str, Array]:
    """The arrays of a transcript by their first names.

    What the files announce is compared with their sizes, the rules and the limit before any array
    is read.

    Args:
        path: a file, or a folder of files.
        max_bytes: most that the arrays may take in memory; ``None`` for no limit.

    Raises:
        DataError: a file is missing, damaged, of another kind, or pickled; an array is unknown,
            missing, or has another number of rows; or they take more than the limit.
    """
    files = [ArrayFile(piece) for piece in _pieces(path)]
    _require_known(path, _heads(path, files))
    _require_room(path, files, max_bytes)
    return _arrays(path, files)


def _safetensors_alone(folder: Path) -> bool:
    """Whether a folder holds safetensors files that are none of ours."""
    ours = ("ids", "truth", "hints", "top", "bottom", "message_top", "prediction_top")
    names = {path.stem for path in folder.glob("*.safetensors")}
    return bool(names) and not names & set(ours)


def _pieces(path: Path) -> list[Path]:
    """The files of a transcript: one, one for each array, or several with all arrays."""
    if not path.exists():
        raise DataError(f"There is no {path}. Name a run folder or a transcript.")
    if not path.is_dir():
        if path.suffix not in SUFFIXES:
            raise DataError(
                f"{path} must be a .npz or .safetensors file, or a folder of them or of .npy files."
            )
        return [path]
    pieces = sorted(path.glob("*.npy"))
    pieces = pieces or sorted(piece for piece in path.iterdir() if piece.suffix in SUFFIXES)
    if not pieces:
        raise DataError(f"{path} holds neither .npy, .npz nor .safetensors files.")
    return pieces


def _require_known(path: Path, heads: Mapping[str, Sequence[ArrayHead]]) -> None:
    """Refuse arrays that are missing, unknown, or of unequal numbers of rows."""
    known = (*_NEEDED, *_OPTIONAL, *INFERENCE)
    for name in heads:
        if name not in known:
            raise DataError(
                f"{path}: array {name!r} is unknown. Known: {', '.join(known)}. Leave it out."
            )
    for name in _NEEDED:
        if name not in heads:
            raise DataError(
                f"{path}: array {name!r} is missing; there are "
                f"{', '.join(sorted(heads)) or 'none'}. A transcript needs "
                f"{', '.join(_NEEDED)}, one entry a sent gradient row."
            )
    rows = [head.rows for head in heads["gradient"]]
    if sum(rows) == 0:
        raise DataError(f"{path}: gradient must have at least one row, got none.")
    for name in (*_NEEDED, *_OPTIONAL):
        for head, expected in zip(heads.get(name, ()), rows, strict=False):
            if head.rows != expected:
                raise DataError(
                    f"{path}: {name} must have {expected:,} entries as gradient has rows, got "
                    f"shape {head.shape}."
                )


def _heads(path: Path, files: Sequence[ArrayFile]) -> dict[str, list[ArrayHead]]:
    """What the files announce of each array, piece by piece."""
    if files[0].path.suffix == ".npy":
        found = _renamed(path, {name: head for file in files for name, head in file.heads.items()})
        return {name: [head] for name, head in found.items()}
    parts = [_renamed(file.path, file.heads) for file in files]
    for file, part in zip(files, parts, strict=True):
        if part.keys() != parts[0].keys():
            raise DataError(
                f"{file.path} must hold the arrays of {files[0].path.name} "
                f"({', '.join(sorted(parts[0]))}), got {', '.join(sorted(part))}."
            )
    return {name: [part[name] for part in parts] for name in parts[0]}


def _require_room(path: Path, files: Sequence[ArrayFile], max_bytes: int | None) -> None:
    """Refuse arrays that take more memory than is allowed."""
    announced = sum(head.bytes for file in files for head in file.heads.values())
    if max_bytes is not None and announced > max_bytes:
        stored = sum(file.path.stat().st_size for file in files)
        raise DataError(
            f"{path}: its arrays take {announced:,} bytes in memory, from {stored:,} on the disk, "
            f"and at most {max_bytes:,} are read. If you trust the file, raise --max-bytes."
        )


def _arrays(path: Path, files: Sequence[ArrayFile]) -> dict[str, Array]:
    """Every array by its first name."""
    if files[0].path.suffix == ".npy":
        return _renamed(path, {name: a for file in files for name, a in file.read().items()})
    parts = [_renamed(file.path, file.read()) for file in files]
    try:
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: the files do not fit together ({error}).") from error


def _renamed(path: Path, arrays: Mapping[str, Entry]) -> dict[str, Entry]:
    """Arrays, or their heads, by their first names."""
    found: dict[str, Entry] = {}
    for name, array in arrays.items():
        first = _OTHER_NAMES.get(name, name)
        if first in found:
            raise DataError(f"{path}: {first} is there under two names. Leave one out.")
        found[first] = array
    return found
