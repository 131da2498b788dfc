"""Transcripts of other frameworks: arrays in one file, or in several files of one folder.

=============== ==================== =====================================================
array           shape                meaning
=============== ==================== =====================================================
``gradient``    ``(rows, width)``    gradient row as sent to the non-label party, float
``ids``         ``(rows,)``          whose row it is: whole numbers or texts
``labels``      ``(rows,)``          its label, 0 or 1; the same in every row of a record
``step``        ``(rows,)``          the training step that sent it, whole number from 0
``epoch``       ``(rows,)``          the epoch of that step, whole number from 0
``activation``  ``(rows, width)``    optional: what the non-label party sent for it, float
``features``    ``(rows, ...)``      optional: its model inputs, for a baseline
=============== ==================== =====================================================

``gradients``, ``records``, ``label``, ``steps``, ``epochs`` and ``activations`` are understood too.
Optional for inference: ``inference_activation`` and ``inference_labels``, of any number of rows.
The rows may stand in any order. A folder holds either one ``NAME.npy`` for each array, or several
``.npz`` or ``.safetensors`` files that are read one behind the other.
"""

import zipfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from cutlayer.audits.recorded_training import HeldOut, RecordedTraining
from cutlayer.audits.truth import Truth
from cutlayer.errors import DataError
from cutlayer.transcript.release import Release

SUFFIXES = (".npz", ".safetensors")

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
_INFERENCE = ("inference_activation", "inference_labels")

Array = NDArray[np.generic]


class ForeignReleases:
    """Releases made of rows that stand sorted by step."""

    def __init__(self, rows: Mapping[str, Tensor], starts: list[int]) -> None:
        self._rows, self._starts = rows, starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __iter__(self) -> Iterator[Release]:
        for begin, end in pairwise(self._starts):
            part = {name: rows[begin:end] for name, rows in self._rows.items()}
            yield Release(
                int(part["step"][0]),
                int(part["epoch"][0]),
                part["records"],
                part["activation"],
                part["gradient"],
            )


def is_foreign(path: Path) -> bool:
    """Whether a path looks like a transcript of another framework."""
    if path.is_dir():
        return any(path.glob("*.npy")) or any(path.glob("*.npz")) or _safetensors_alone(path)
    return path.suffix in (*SUFFIXES, ".npy", ".pt", ".pkl", ".csv", ".parquet")


def read_foreign_transcript(path: Path) -> RecordedTraining:
    """Read and check a transcript of another framework.

    Args:
        path: a ``.npz`` or ``.safetensors`` file, or a folder.

    Returns:
        A training without hints and without a first layer. Where ``activation`` is missing, it is
            zeros, and no attack reads it.

    Raises:
        DataError: a file is missing, of another kind, or pickled; an array is missing, of another
            shape or type, or not finite; a label is neither 0 nor 1 or changes between rows of
            a record; a step has two epochs, or one record twice.
    """
    arrays = _arrays(path)
    for name in arrays:
        if name not in (*_NEEDED, *_OPTIONAL, *_INFERENCE):
            known = ", ".join((*_NEEDED, *_OPTIONAL, *_INFERENCE))
            raise DataError(f"{path}: array {name!r} is unknown. Known: {known}. Leave it out.")
    for name in _NEEDED:
        if name not in arrays:
            raise DataError(
                f"{path}: array {name!r} is missing; there are "
                f"{', '.join(sorted(arrays)) or 'none'}. A transcript needs "
                f"{', '.join(_NEEDED)}, one entry a sent gradient row."
            )
    rows = len(arrays["gradient"]) if arrays["gradient"].ndim else 0
    if rows == 0:
        raise DataError(f"{path}: gradient must have at least one row, got none.")
    for name in (*_NEEDED, *_OPTIONAL):
        if name in arrays and (arrays[name].ndim == 0 or len(arrays[name]) != rows):
            raise DataError(
                f"{path}: {name} must have {rows:,} entries as gradient has rows, got shape "
                f"{arrays[name].shape}."
            )
    gradient = _floats(path, "gradient", arrays["gradient"])
    activation = (
        _floats(path, "activation", arrays["activation"])
        if "activation" in arrays
        else torch.zeros(rows, 1)
    )
    step, epoch = (_whole(path, name, arrays[name]) for name in ("step", "epoch"))
    records, count = _records(path, arrays["ids"])
    truth = Truth(_labels_by_record(path, arrays["labels"], records, count))
    order = torch.argsort(step, stable=True)
    sorted_rows = {
        "gradient": gradient[order],
        "activation": activation[order],
        "records": records[order],
        "step": step[order],
        "epoch": epoch[order],
    }
    starts = _starts(path, sorted_rows)
    features = None
    if "features" in arrays:
        features = _features_by_record(path, arrays["features"], records, count)
    return RecordedTraining(
        ForeignReleases(sorted_rows, starts),
        truth,
        {},
        features=features,
        held_out=_held_out(path, arrays),
        has_activations="activation" in arrays,
    )


def _safetensors_alone(folder: Path) -> bool:
    """Whether a folder holds safetensors files that are none of ours."""
    ours = ("ids", "truth", "hints", "top", "bottom", "message_top", "prediction_top")
    names = {path.stem for path in folder.glob("*.safetensors")}
    return bool(names) and not names & set(ours)


def _arrays(path: Path) -> dict[str, Array]:
    """Every array by its first name."""
    if not path.exists():
        raise DataError(f"There is no {path}. Name a run folder or a transcript.")
    if path.is_dir():
        return _arrays_of_folder(path)
    if path.suffix not in SUFFIXES:
        raise DataError(
            f"{path} must be a .npz or .safetensors file, or a folder of them or of .npy files."
        )
    return _arrays_of_file(path)


def _arrays_of_folder(folder: Path) -> dict[str, Array]:
    """One array a file, or all arrays in pieces."""
    single = sorted(folder.glob("*.npy"))
    if single:
        return _renamed(folder, {path.stem: _loaded(path) for path in single})
    pieces = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    if not pieces:
        raise DataError(f"{folder} holds neither .npy, .npz nor .safetensors files.")
    parts = [_arrays_of_file(path) for path in pieces]
    for path, part in zip(pieces, parts, strict=True):
        if part.keys() != parts[0].keys():
            raise DataError(
                f"{path} must hold the arrays of {pieces[0].name} ({', '.join(sorted(parts[0]))}), "
                f"got {', '.join(sorted(part))}."
            )
    try:
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    except ValueError as error:
        raise DataError(f"{folder}: the files do not fit together ({error}).") from error


def _arrays_of_file(path: Path) -> dict[str, Array]:
    """The arrays of one file."""
    if path.suffix == ".npz":
        loaded = _loaded(path)
        return _renamed(path, loaded)
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} is damaged or no safetensors file ({error}).") from error
    return _renamed(path, {name: _as_array(tensor) for name, tensor in tensors.items()})


def _loaded(path: Path) -> Any:
    """An array, or the arrays, of a NumPy file; never unpickled."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            return dict(found) if path.suffix == ".npz" else found
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        pickled = "allow_pickle" in str(error) or "pickle" in str(error).lower()
        why = (
            "holds Python objects, which are never unpickled; save plain numbers and texts"
            if pickled
            else f"is damaged or no NumPy file ({error})"
        )
        raise DataError(f"{path} {why}.") from error


def _as_array(tensor: Tensor) -> Array:
    """A tensor as an array; bfloat16, which NumPy lacks, as float32."""
    found: Array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return found


def _renamed(path: Path, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays by their first names."""
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        first = _OTHER_NAMES.get(name, name)
        if first in found:
            raise DataError(f"{path}: {first} is there under two names. Leave one out.")
        found[first] = array
    return found


def _floats(path: Path, name: str, array: Array) -> Tensor:
    """A float matrix without NaN."""
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind != "f":
        raise DataError(
            f"{path}: {name} must be a float array of shape (rows, width), got {array.dtype} of "
            f"shape {array.shape}."
        )
    bad = int((~np.isfinite(array)).any(axis=1).sum())
    if bad:
        raise DataError(f"{path}: {name} must be finite, got NaN or infinity in {bad:,} rows.")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(np.ascontiguousarray(native))


def _whole(path: Path, name: str, array: Array) -> Tensor:
    """Whole numbers from 0."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {name} must be whole numbers of shape (rows,), got {array.dtype} of shape "
            f"{array.shape}."
        )
    values = torch.from_numpy(array.astype(np.int64))
    if int(values.min()) < 0:
        raise DataError(f"{path}: {name} must be at least 0, got {int(values.min())}.")
    return values


def _records(path: Path, ids: Array) -> tuple[Tensor, int]:
    """Positions in the sorted list of distinct ids."""
    if ids.ndim != 1 or ids.dtype.kind not in "iuUS":
        raise DataError(
            f"{path}: ids must be whole numbers or texts of shape (rows,), got {ids.dtype} of "
            f"shape {ids.shape}."
        )
    distinct, places = np.unique(ids, return_inverse=True)
    return torch.from_numpy(places.astype(np.int64)), len(distinct)


def _labels_by_record(path: Path, labels: Array, records: Tensor, count: int) -> Tensor:
    """One label a record."""
    flat = labels.reshape(len(labels), -1)
    if flat.shape[1] != 1 or labels.dtype.kind not in "iufb":
        raise DataError(
            f"{path}: labels must be numbers of shape (rows,), got {labels.dtype} of shape "
            f"{labels.shape}."
        )
    values = flat[:, 0].astype(np.float64)
    if not np.isin(values, (0.0, 1.0)).all():
        some = ", ".join(f"{value:g}" for value in np.unique(values)[:4])
        raise DataError(f"{path}: labels must hold only 0 and 1, got {some}.")
    of_rows = torch.from_numpy(values.astype(np.int8))
    by_record = torch.zeros(count, dtype=torch.int8)
    by_record[records] = of_rows
    changed = int((by_record[records] != of_rows).sum())
    if changed:
        raise DataError(
            f"{path}: a record must have one label in all its rows, got {changed:,} rows with "
            "another one."
        )
    if not 0 < int(by_record.sum()) < count:
        raise DataError(f"{path}: labels must hold both classes, got {int(by_record[0])} alone.")
    return by_record


def _features_by_record(path: Path, features: Array, records: Tensor, count: int) -> Tensor:
    """One row of inputs a record: that of its last row."""
    flat = _floats(path, "features", features.reshape(len(features), -1))
    by_record = flat.new_zeros(count, flat.shape[1])
    by_record[records] = flat
    return by_record


def _starts(path: Path, rows: Mapping[str, Tensor]) -> list[int]:
    """Where each step begins among the sorted rows, and where the last ends."""
    step, epoch, records = rows["step"], rows["epoch"], rows["records"]
    same_step = step[1:] == step[:-1]
    if bool((same_step & (epoch[1:] != epoch[:-1])).any()):
        where = int(step[1:][same_step & (epoch[1:] != epoch[:-1])][0])
        raise DataError(f"{path}: a step must belong to one epoch, got several for step {where}.")
    if bool((epoch[1:] < epoch[:-1]).any()):
        where = int(step[1:][epoch[1:] < epoch[:-1]][0])
        raise DataError(f"{path}: epochs must not fall as steps grow, got that at step {where}.")
    starts = [0, *(torch.nonzero(~same_step)[:, 0] + 1).tolist(), len(step)]
    for begin, end in pairwise(starts):
        if len(torch.unique(records[begin:end])) < end - begin:
            raise DataError(
                f"{path}: a record must stand in a step at most once, got one twice in step "
                f"{int(step[begin])}."
            )
    return starts


def _held_out(path: Path, arrays: Mapping[str, Array]) -> HeldOut | None:
    """What was sent for prediction."""
    given = [name for name in _INFERENCE if name in arrays]
    if not given:
        return None
    if len(given) == 1:
        missing = next(name for name in _INFERENCE if name not in arrays)
        raise DataError(f"{path}: {given[0]} needs {missing} beside it.")
    activation = _floats(path, _INFERENCE[0], arrays[_INFERENCE[0]])
    labels = arrays[_INFERENCE[1]]
    if labels.shape != (len(activation),) or not np.isin(labels, (0, 1)).all():
        raise DataError(
            f"{path}: inference_labels must be {len(activation):,} values 0 or 1, got shape "
            f"{labels.shape}."
        )
    return HeldOut(activation, torch.from_numpy(labels.astype(np.int64)))
