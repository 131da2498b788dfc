"""A transcript: everything that the non-label party saw, as a folder that attacks read.

::

    transcript/
    ├── ids.safetensors                     the run's ids; a record is a position in this list
    ├── release-0000000000.safetensors      records, activation and gradient of step 0
    └── release-0000000010.safetensors      ... of step 10, if every tenth step is kept

No label, no clean gradient and no loss is in it, so it may be given to whoever plays the attacker.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.errors import DataError
from cutlayer.transcript.release import Release
from cutlayer.transcript.tensor_file import (
    PARTIAL,
    read_tensor_file,
    same_bits,
    write_tensor_file,
)

_IDS = "ids.safetensors"
_IDS_KIND = "transcript.ids/1"
_RELEASE_KIND = "transcript.release/1"
_RELEASE_TENSORS = ("activation", "gradient", "records")


class TranscriptWriter:
    """Keeps a sample of the releases of one training, one file each.

    A file is complete or absent whatever interrupts the run. A writer on the folder of an
    interrupted run goes on where that one stopped.

    Args:
        folder: made if it does not exist.
        ids: the run's ids in the order of their positions, as ``Release.records`` means them.
        every: keep the steps that this number divides; 1 keeps all.

    Raises:
        ValueError: ``every`` is below 1, or there are no ids.
        DataError: the folder holds a transcript of other ids.
    """

    def __init__(self, folder: Path, ids: Sequence[str], every: int = 1) -> None:
        check.at_least("every", every, 1)
        check.at_least("number of ids", len(ids), 1)
        self.folder = folder
        self.every = every
        self._records = len(ids)
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"*{PARTIAL}"):
            leftover.unlink()
        if not (folder / _IDS).exists():
            write_tensor_file(folder / _IDS, _IDS_KIND, _packed(ids))
        elif _read_ids(folder) != tuple(ids):
            raise DataError(
                f"{folder} holds the transcript of a run with other ids. Choose an empty folder."
            )

    def keeps(self, step: int) -> bool:
        """Whether the release of this step belongs to the sample."""
        return step % self.every == 0

    def write(self, release: Release) -> bool:
        """Keep one release if its step belongs to the sample.

        Returns:
            Whether it was kept.

        Raises:
            ValueError: a record is not a position in ``ids``.
            DataError: the step is on file with other bytes. One step is sent once; a resend sends
                the same bytes, and is accepted.
        """
        if not self.keeps(release.step):
            return False
        _check_records(release, self._records)
        path = _release_path(self.folder, release.step)
        tensors = {name: getattr(release, name) for name in _RELEASE_TENSORS}
        if path.exists():
            kept, _ = read_tensor_file(path, _RELEASE_KIND, _RELEASE_TENSORS, fix=_fix(path))
            if not same_bits(kept, tensors):
                raise DataError(
                    f"{path} holds another release of step {release.step}. A step is sent once: "
                    "choose an empty folder for another run."
                )
            return True
        metadata = {"step": str(release.step), "epoch": str(release.epoch)}
        write_tensor_file(path, _RELEASE_KIND, tensors, metadata)
        return True


class Transcript:
    """A kept transcript; iterating reads one release after the other, in the order of steps.

    Only one release is in memory at a time, so a transcript may be larger than the memory.

    Args:
        folder: what a :class:`TranscriptWriter` wrote.

    Raises:
        DataError: the folder holds no transcript, or its list of ids is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids = _read_ids(folder)
        self.steps = tuple(sorted(_step_of(path) for path in folder.glob("release-*.safetensors")))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Release]:
        return (self.release(step) for step in self.steps)

    def release(self, step: int) -> Release:
        """Read and check the release of one step.

        Raises:
            DataError: the step was not kept, or its file is damaged or disagrees with its name or
                with the list of ids.
        """
        path = _release_path(self.folder, step)
        tensors, metadata = read_tensor_file(path, _RELEASE_KIND, _RELEASE_TENSORS, fix=_fix(path))
        try:
            release = Release(int(metadata["step"]), int(metadata["epoch"]), **tensors)
            _check_records(release, len(self.ids))
        except (KeyError, ValueError) as error:
            raise DataError(f"{path} holds no valid release: {error} {_fix(path)}") from error
        if release.step != step:
            raise DataError(f"{path} holds step {release.step}, not {step}. {_fix(path)}")
        return release


def _release_path(folder: Path, step: int) -> Path:
    """Where the release of a step is kept; names sort like steps."""
    return folder / f"release-{step:010d}.safetensors"


def _step_of(path: Path) -> int:
    """The step that a file name states."""
    digits = path.stem.removeprefix("release-")
    if not digits.isdecimal():
        raise DataError(f"{path} is no name of a release. Remove the file from the transcript.")
    return int(digits)


def _fix(path: Path) -> str:
    """What a reader can do about a release of no use."""
    return f"Remove {path.name} to audit the other steps, or record the run again."


def _check_records(release: Release, count: int) -> None:
    """Refuse records that are no positions in the list of ids, or stand there twice."""
    records = release.records
    if records.dtype != torch.int64:
        raise ValueError(f"records must be int64, got {records.dtype}.")
    if not 0 <= int(records.min()) <= int(records.max()) < count:
        raise ValueError(
            f"records must lie in 0 to {count - 1}, got {int(records.min())} "
            f"to {int(records.max())}."
        )
    if len(torch.unique(records)) < len(records):
        raise ValueError("records must stand in a release at most once, got one twice.")


def _packed(ids: Sequence[str]) -> dict[str, Tensor]:
    """Ids as one run of UTF-8 bytes and the length of each: no pickle, no separator to escape."""
    encoded = [name.encode() for name in ids]
    text = bytearray(b"".join(encoded))
    return {
        "text": torch.frombuffer(text, dtype=torch.uint8) if text else torch.empty(0).byte(),
        "lengths": torch.tensor([len(name) for name in encoded]),
    }


def _read_ids(folder: Path) -> tuple[str, ...]:
    """The list of ids of a transcript."""
    path = folder / _IDS
    fix = "Give the folder that a run recorded as its transcript, or record the run again."
    tensors, _ = read_tensor_file(path, _IDS_KIND, ("lengths", "text"), fix=fix)
    text, ends = tensors["text"].numpy().tobytes(), tensors["lengths"].cumsum(0).tolist()
    if not ends or ends[-1] != len(text) or int(tensors["lengths"].min()) < 0:
        raise DataError(f"{path} is damaged: the lengths do not fill the text. {fix}")
    try:
        return tuple(
            text[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)
        )
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is damaged: an id is no UTF-8 text. {fix}") from error
