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

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cutlayer.audits.external_arrays import INFERENCE, read_arrays
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.recording.recorded_training import HeldOut, RecordedTraining
from cutlayer.errors import DataError
from cutlayer.transcript.array_file import Array
from cutlayer.transcript.release import Release

_LARGEST = torch.iinfo(torch.int64).max


class ExternalReleases:
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


def read_external_transcript(path: Path, *, max_bytes: int | None = None) -> RecordedTraining:
    """Read and check a transcript of another framework.

    Args:
        path: a ``.npz`` or ``.safetensors`` file, or a folder.
        max_bytes: most that its arrays may take in memory; ``None`` for no limit. What a file
            announces is compared with it, and with the file, before any array is read.

    Returns:
        A training without hints and without a first layer. Where ``activation`` is missing, it is
            zeros, and no attack reads it.

    Raises:
        DataError: a file is missing, of another kind, or pickled; an array is missing, of another
            shape or type, or not finite; a label is neither 0 nor 1 or changes between rows of
            a record; a step has two epochs, or one record twice.
    """
    arrays = read_arrays(path, max_bytes)
    rows = len(arrays["gradient"])
    gradient = _floats(path, "gradient", arrays["gradient"])
    activation = (
        _floats(path, "activation", arrays["activation"])
        if "activation" in arrays
        else torch.zeros(rows, 1)
    )
    step, epoch = (_whole(path, name, arrays[name]) for name in ("step", "epoch"))
    records, count = _records(path, arrays["ids"])
    truth = GroundTruth(_labels_by_record(path, arrays["labels"], records, count))
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
        ExternalReleases(sorted_rows, starts),
        truth,
        {},
        features=features,
        held_out=_held_out(path, arrays),
        has_activations="activation" in arrays,
    )


def _floats(path: Path, name: str, array: Array) -> Tensor:
    """A float matrix without NaN."""
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind != "f":
        raise DataError(
            f"{path}: {name} must be a float array of shape (rows, width), got {array.dtype} of "
            f"shape {array.shape}."
        )
    # Torch knows the native order of bytes alone, and nothing longer than float64.
    known = np.float64 if array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")
    with np.errstate(over="ignore"):
        native = array.astype(known, copy=False)
    bad = int((~np.isfinite(native)).any(axis=1).sum())
    if bad:
        raise DataError(f"{path}: {name} must be finite, got NaN or infinity in {bad:,} rows.")
    return torch.from_numpy(np.ascontiguousarray(native))


def _whole(path: Path, name: str, array: Array) -> Tensor:
    """Whole numbers from 0."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {name} must be whole numbers of shape (rows,), got {array.dtype} of shape "
            f"{array.shape}."
        )
    least, most = int(array.min()), int(array.max())
    if least < 0:
        raise DataError(f"{path}: {name} must be at least 0, got {least}.")
    if most > _LARGEST:
        raise DataError(f"{path}: {name} must be at most {_LARGEST}, got {most}.")
    return torch.from_numpy(array.astype(np.int64))


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
    if labels.size != len(labels) or labels.dtype.kind not in "iufb":
        raise DataError(
            f"{path}: labels must be numbers of shape (rows,), got {labels.dtype} of shape "
            f"{labels.shape}."
        )
    values = labels.reshape(-1).astype(np.float64)
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
    width = math.prod(features.shape[1:])
    flat = _floats(path, "features", features.reshape(len(features), width))
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
    given = [name for name in INFERENCE if name in arrays]
    if not given:
        return None
    if len(given) == 1:
        missing = next(name for name in INFERENCE if name not in arrays)
        raise DataError(f"{path}: {given[0]} needs {missing} beside it.")
    activation = _floats(path, INFERENCE[0], arrays[INFERENCE[0]])
    labels = arrays[INFERENCE[1]]
    is_known = labels.dtype.kind in "iufb" and np.isin(labels, (0, 1)).all()
    if labels.shape != (len(activation),) or not is_known:
        raise DataError(
            f"{path}: inference_labels must be {len(activation):,} values 0 or 1, got "
            f"{labels.dtype} of shape {labels.shape}."
        )
    return HeldOut(activation, torch.from_numpy(labels.astype(np.int64)))
