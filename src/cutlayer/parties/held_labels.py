"""Held labels: a run shows at each start whether a label has changed since its messages left.

Decided before the peer is met, on all records of the label party: were it decided on the records
that the peer has, or while it listens, then whoever chooses those records would learn from a
refusal that one of *their* labels has changed.

One training must not mix two labellings, and a step that is answered again must get the same
answer, so a change ends the run.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.alignment.shared_ids import id_digests
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.rng import tensor_digest
from cutlayer.transcript.tensor_file import read_tensor_file, write_tensor_file

_KIND = "parties.labels/1"
_NAMES = ("marks", "records")
_PURPOSE = b"cutlayer labelling"
_SHOWN = 3
_FIX = "Put the file back, or begin a run of another name."


def hold_labels(
    path: Path, key: bytes, ids: Sequence[str], labels: Tensor, *, released: int
) -> None:
    """Refuse a label that has changed since messages left; note those that are new.

    The file has 9 bytes for each record: a keyed hash of its id, and its label under one more bit
    of that hash. Without the key it shows neither.

    Args:
        path: the file; made at the first start.
        key: secret of the run, 32 bytes.
        ids: of all records of the label party.
        labels: theirs, 0 or 1, ``(records,)``.
        released: messages that have left; before the first, labels may still change.

    Raises:
        ConfigurationError: a label has changed.
        DataError: the file is damaged, or missing though messages have left.
        StorageError: it cannot be written.
    """
    if released and not path.exists():
        # Without it, a changed label would show in the first reply that is computed again: an end
        # that depends on the labels of the very records that the peer brings.
        raise DataError(
            f"label party: {path} is missing, but this run has sent {released} messages, so nobody "
            f"can say whether a label has changed since. {_FIX}"
        )
    records, marks = _marked(key, ids, labels)
    kept_records, kept_marks = _read(path) if path.exists() else (records[:0], marks[:0])
    place = np.searchsorted(kept_records, records)
    known = place < len(kept_records)
    known[known] = kept_records[place[known]] == records[known]
    changed = known.copy()
    changed[known] = kept_marks[place[known]] != marks[known]
    if changed.any() and released:
        raise _changed(released, [ids[int(row)] for row in changed.nonzero()[0]])
    if known.all() and not changed.any():
        return
    kept_marks[place[changed]] = marks[changed]
    records = np.concatenate([kept_records, records[~known]])
    marks = np.concatenate([kept_marks, marks[~known]])
    order = np.argsort(records)
    tensors = {
        "records": torch.from_numpy(records[order]),
        "marks": torch.from_numpy(marks[order]),
    }
    write_tensor_file(path, _KIND, tensors)


def labelling_of(ids: Sequence[str], labels: Tensor) -> bytes:
    """A digest of all ids and labels of the label party, in any order; 32 bytes.

    Args:
        ids: of all its records, whichever of them the peer has.
        labels: theirs, 0 or 1, ``(records,)``.
    """
    digests = id_digests(ids, salt=_PURPOSE).view("<i8")
    order = np.lexsort(digests.T)
    return tensor_digest(torch.from_numpy(digests[order]), labels[order])


def _marked(
    key: bytes, ids: Sequence[str], labels: Tensor
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """A name for each record, int64, and its label under a bit that only the key tells."""
    digests = id_digests(ids, salt=key)
    records = np.ascontiguousarray(digests[:, :8]).view("<i8")[:, 0].astype(np.int64)
    marks = np.bitwise_and(digests[:, 8], 1) ^ labels.numpy()
    return records, marks.astype(np.uint8)


def _read(path: Path) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """What is on record, in rising order of the records."""
    tensors, _ = read_tensor_file(path, _KIND, _NAMES, fix=_FIX)
    return tensors["records"].numpy(), tensors["marks"].numpy().copy()


def _changed(released: int, ids: Sequence[str]) -> ConfigurationError:
    """The error where one training would mix two labellings."""
    named = ", ".join(repr(name) for name in ids[:_SHOWN])
    return ConfigurationError(
        f"label party: this run has sent {released} messages, and the labels of {len(ids):,} of "
        f"its records (file, label, positive, negative) have changed since: {named}"
        f"{' and others' if len(ids) > _SHOWN else ''}. Put the labels of its first start back, or "
        "begin a run of another name."
    )
