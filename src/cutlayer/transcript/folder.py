"""A transcript: everything that the non-label party saw, as a folder that attacks read.

::

    transcript/
    ├── ids.safetensors         the run's ids; a record is a position in this list
    ├── sample.safetensors      the order in which records leave the sample when space is short
    ├── chunk-000000.safetensors    releases one after the other: step, epoch, records, activation
    └── chunk-000001.safetensors    and gradient of each

No label, no clean gradient and no loss is in it, so it may be given to whoever plays the attacker.

With a limit on its size the folder keeps the *whole histories* of a uniform sample of the records,
and never rows at random: an attacker who averages over visits needs all visits of a record. When
the limit is reached, half of the sampled records leave it, and with them all that was kept of them.
Which records those are is drawn before the first release and depends on nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.durable import PARTIAL
from cutlayer.errors import DataError
from cutlayer.transcript.release import Release
from cutlayer.transcript.tensor_file import (
    read_tensor_file,
    read_tensor_head,
    same_bits,
    write_tensor_file,
)

CHUNK_BYTES = 16 << 20
"""A chunk is written when so much has gathered, at the end of an epoch, and at each checkpoint."""

SMALLEST_CHUNK_BYTES = 1 << 20
"""A chunk with less is written again, with what has come since, instead of a new one beside it."""

_IDS, _SAMPLE = "ids.safetensors", "sample.safetensors"
_IDS_KIND, _SAMPLE_KIND = "transcript.ids/1", "transcript.sample/1"
_CHUNK_KIND = "transcript.chunk/1"
_PER_ROW = ("activation", "gradient", "records")
_PER_RELEASE = ("epochs", "rows", "steps")
_CHUNK_TENSORS = _PER_ROW + _PER_RELEASE


class TranscriptWriter:
    """Keeps the releases of one training in chunks.

    A chunk is complete or absent whatever interrupts the run; what had gathered since the last
    write is lost with the process, so :meth:`flush` at points that the run can go on from. A writer
    on the folder of an interrupted run goes on behind what that one kept.

    Args:
        folder: made if it does not exist.
        ids: the run's ids in the order of their positions, as ``Release.records`` means them.
        every: keep the steps that this number divides; 1 keeps all.
        limit_bytes: most that the folder may take; ``None`` for no limit.
        generator: draws the order in which records leave the sample; needed with a limit. Keep it
            apart from every other purpose.

    Raises:
        ValueError: ``every`` is below 1, there are no ids, or a limit comes without a generator.
        DataError: the folder holds a transcript of other ids, or the limit is too small for them.
    """

    def __init__(
        self,
        folder: Path,
        ids: Sequence[str],
        every: int = 1,
        *,
        limit_bytes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        check.at_least("every", every, 1)
        check.at_least("number of ids", len(ids), 1)
        if limit_bytes is not None and generator is None:
            raise ValueError("generator must be given with limit_bytes, got None.")
        self.folder = folder
        self.every = every
        self._records, self._limit = len(ids), limit_bytes
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"*{PARTIAL}"):
            leftover.unlink()
        self._bind(ids)
        self._sample = _Sample.open(folder, len(ids), generator)
        self._require_room()
        self._gathered: list[Release] = []  # the newest chunk, until it is large enough
        self._bytes = 0
        self._is_written = True
        self._last: Release | None = None
        found = _chunk_paths(folder)
        self._chunks = len(found)
        # An earlier process may have died before all rows of those who left the sample were gone.
        self._is_thinned = not found or self._sample.size == len(ids)
        self._newest = max((step for path in found for step in _heads(path)[0]), default=-1)
        self._thin_to_limit()

    @property
    def sampled(self) -> int:
        """How many records' histories are kept."""
        return self._sample.size

    def keeps(self, step: int) -> bool:
        """Whether the release of this step is kept."""
        return step % self.every == 0

    def holds(self, step: int) -> bool:
        """Whether the release of this step is kept, and it or a later one is here already."""
        return self.keeps(step) and step <= self._newest

    def write(self, release: Release) -> bool:
        """Keep one release if its step is due; it reaches the disk with its chunk.

        A release with the step of the one before is a resend.

        Returns:
            Whether it was kept.

        Raises:
            ValueError: a record is not a position in ``ids``.
            DataError: a resend has other bytes. One step is sent once.
        """
        if not self.keeps(release.step):
            return False
        _check_records(release, self._records)
        if self._last is not None and self._last.step == release.step:
            if not same_bits(_tensors(self._last), _tensors(release)):
                raise DataError(
                    f"{self.folder} holds another release of step {release.step}. A step is sent "
                    "once, and a resend sends the same bytes."
                )
            return True
        if self._last is not None and self._last.epoch != release.epoch:
            self.flush()
        self._last = _owned(release)
        self._newest = max(self._newest, release.step)
        kept = self._sample.part_of(self._last)
        if kept is not None:
            self._gathered.append(kept)
            self._bytes += _size(kept)
            self._is_written = False
        if self._bytes >= CHUNK_BYTES:
            self.flush()
        return True

    def flush(self) -> None:
        """Write what has gathered, and let records leave the sample if the limit is passed."""
        if self._is_written:
            return
        _write_chunk(_chunk_path(self.folder, self._chunks), self._gathered)
        self._is_written = True
        if self._bytes >= SMALLEST_CHUNK_BYTES:
            self._chunks += 1
            self._gathered, self._bytes = [], 0
        self._thin_to_limit()

    def _thin_to_limit(self) -> None:
        """Halve the sample until the folder fits."""
        if self._limit is None:
            return
        while self._sample.size > 1 and _bytes_in(self.folder) > self._limit:
            if self._is_thinned:
                self._sample = self._sample.halved(self.folder)
                self._is_thinned = False
            for path in _chunk_paths(self.folder):
                # A chunk without a row of the sample keeps its place, so that numbers stay whole.
                _write_chunk(path, self._sample.parts_of(_read_chunk(path, self._records)))
            self._gathered = self._sample.parts_of(self._gathered)
            self._bytes = sum(map(_size, self._gathered))
            self._is_thinned = True

    def _bind(self, ids: Sequence[str]) -> None:
        """Write the ids, or see that the folder holds these."""
        if not (self.folder / _IDS).exists():
            write_tensor_file(self.folder / _IDS, _IDS_KIND, _packed(ids))
        elif _read_ids(self.folder) != tuple(ids):
            raise DataError(
                f"{self.folder} holds the transcript of a run with other ids. Choose an empty "
                "folder."
            )

    def _require_room(self) -> None:
        """Refuse a limit that the lists of the records alone exceed."""
        needed = sum((self.folder / name).stat().st_size for name in (_IDS, _SAMPLE))
        if self._limit is not None and self._limit < 2 * needed:
            raise DataError(
                f"{self.folder}: a transcript of {self._records:,} records needs at least "
                f"{2 * needed:,} bytes, got a limit of {self._limit:,}. Give it more room."
            )


class Transcript:
    """A kept transcript; iterating reads one release after the other, in the order of sending.

    Only one chunk is in memory at a time, so a transcript may be larger than the memory.

    Args:
        folder: what a :class:`TranscriptWriter` wrote.
        epochs: only the releases of epochs below this number; ``None`` for all.

    Raises:
        DataError: the folder holds no transcript, or a list or the head of a chunk is damaged.
    """

    def __init__(self, folder: Path, *, epochs: int | None = None) -> None:
        self.folder = folder
        self.ids = _read_ids(folder)
        self._epochs = epochs
        self._sample = _Sample.read(folder, len(self.ids))
        self.steps = tuple(
            step
            for path in _chunk_paths(folder)
            for step, epoch in zip(*_heads(path), strict=True)
            if epochs is None or epoch < epochs
        )

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Release]:
        for path in _chunk_paths(self.folder):
            for release in _read_chunk(path, len(self.ids)):
                if self._epochs is not None and release.epoch >= self._epochs:
                    continue
                kept = self._sample.part_of(release)
                if kept is not None:
                    yield kept

    @property
    def sampled(self) -> int:
        """How many records' histories are kept, of all that the run has ids for."""
        return self._sample.size

    def first_epochs(self, epochs: int) -> "Transcript":
        """What the non-label party had seen after so many epochs.

        Raises:
            ValueError: ``epochs`` is below 1.
        """
        check.at_least("epochs", epochs, 1)
        return Transcript(self.folder, epochs=epochs)

    def release(self, step: int) -> Release:
        """Read the release of one step; the first, where an epoch was sent again.

        Raises:
            DataError: the step was not kept, or its chunk is damaged.
        """
        for path in _chunk_paths(self.folder):
            if step not in _heads(path)[0]:
                continue
            for release in _read_chunk(path, len(self.ids)):
                if release.step == step and (kept := self._sample.part_of(release)) is not None:
                    return kept
        raise DataError(f"{self.folder} holds no release of step {step}. {_FIX}")


@dataclass(frozen=True, eq=False)
class _Sample:
    """Which records' histories are kept: those with the lowest ranks."""

    rank: Tensor
    size: int

    @classmethod
    def open(cls, folder: Path, records: int, generator: torch.Generator | None) -> "_Sample":
        """The sample of the folder, drawn anew if there is none."""
        if not (folder / _SAMPLE).exists():
            # Without a limit nobody ever leaves, so there is no order to draw.
            order = torch.arange(records)
            rank = order if generator is None else torch.randperm(records, generator=generator)
            cls(rank.to(torch.int32), records)._keep(folder)
        return cls.read(folder, records)

    @classmethod
    def read(cls, folder: Path, records: int) -> "_Sample":
        """The sample of the folder."""
        path = folder / _SAMPLE
        tensors, metadata = read_tensor_file(path, _SAMPLE_KIND, ("rank",), fix=_FIX)
        size = metadata.get("size", "")
        if len(tensors["rank"]) != records or not size.isdecimal() or int(size) > records:
            raise DataError(f"{path} is damaged: it fits no list of {records} ids. {_FIX}")
        return cls(tensors["rank"], int(size))

    def halved(self, folder: Path) -> "_Sample":
        """Half of it; on disk before any row goes, so that an interruption leaves whole histories.

        A reader asks the sample for every row, so rows that are still on disk are not read.
        """
        half = _Sample(self.rank, max(1, self.size // 2))
        half._keep(folder)
        return half

    def part_of(self, release: Release) -> Release | None:
        """The sampled rows of a release; ``None`` where there are none."""
        if self.size == len(self.rank):
            return release
        rows = self.rank[release.records] < self.size
        if not bool(rows.any()):
            return None
        return replace(
            release,
            records=release.records[rows],
            activation=release.activation[rows],
            gradient=release.gradient[rows],
        )

    def parts_of(self, releases: Iterable[Release]) -> list[Release]:
        """The sampled rows of several releases, without those that have none."""
        parts = map(self.part_of, releases)
        return [part for part in parts if part is not None]

    def _keep(self, folder: Path) -> None:
        """Write it whole or not at all."""
        metadata = {"size": str(self.size)}
        write_tensor_file(folder / _SAMPLE, _SAMPLE_KIND, {"rank": self.rank}, metadata)


_FIX = "Give the folder that a run recorded as its transcript, or record the run again."


def _chunk_path(folder: Path, number: int) -> Path:
    """Where a chunk is kept; names sort like the order of sending."""
    return folder / f"chunk-{number:06d}.safetensors"


def _chunk_paths(folder: Path) -> list[Path]:
    """All chunks, in the order of sending.

    Raises:
        DataError: one is missing between two others, or a file has another name.
    """
    paths = sorted(folder.glob("chunk-*.safetensors"))
    for number, path in enumerate(paths):
        if path != _chunk_path(folder, number):
            raise DataError(
                f"{folder} must hold {_chunk_path(folder, number).name} before {path.name}, got a "
                f"gap or another name. {_FIX}"
            )
    return paths


def _bytes_in(folder: Path) -> int:
    """What the folder takes."""
    return sum(path.stat().st_size for path in folder.iterdir())


def _tensors(release: Release) -> dict[str, Tensor]:
    """The tensors of a release by name."""
    return {name: getattr(release, name) for name in _PER_ROW}


def _owned(release: Release) -> Release:
    """A copy that nobody else can change while it waits."""
    copies = {name: value.detach().cpu().clone() for name, value in _tensors(release).items()}
    return Release(release.step, release.epoch, **copies)


def _size(release: Release) -> int:
    """Bytes of a release."""
    return sum(t.numel() * t.element_size() for t in _tensors(release).values())


def _write_chunk(path: Path, releases: Sequence[Release]) -> None:
    """Write releases one behind the other."""
    if not releases:
        tensors = dict.fromkeys(_CHUNK_TENSORS, torch.empty(0, dtype=torch.int64))
    else:
        tensors = {n: torch.cat([getattr(r, n) for r in releases]) for n in _PER_ROW}
        tensors |= {
            "steps": torch.tensor([release.step for release in releases]),
            "epochs": torch.tensor([release.epoch for release in releases]),
            "rows": torch.tensor([len(release.records) for release in releases]),
        }
    metadata = {
        "steps": " ".join(str(release.step) for release in releases),
        "epochs": " ".join(str(release.epoch) for release in releases),
    }
    write_tensor_file(path, _CHUNK_KIND, tensors, metadata)


def _heads(path: Path) -> tuple[list[int], list[int]]:
    """Steps and epochs of a chunk, without reading its rows."""
    metadata = read_tensor_head(path, _CHUNK_KIND, fix=_FIX)
    try:
        steps, epochs = (list(map(int, metadata[n].split())) for n in ("steps", "epochs"))
    except (KeyError, ValueError) as error:
        raise DataError(f"{path} is damaged: its head names no steps. {_FIX}") from error
    if len(steps) != len(epochs):
        raise DataError(f"{path} is damaged: its head names unequal steps and epochs. {_FIX}")
    return steps, epochs


def _read_chunk(path: Path, records: int) -> Iterator[Release]:
    """The releases of one chunk, each checked."""
    tensors, _ = read_tensor_file(path, _CHUNK_KIND, _CHUNK_TENSORS, fix=_FIX)
    try:
        parts = {name: tensors[name].split(tensors["rows"].tolist()) for name in _PER_ROW}
        for step, epoch, *values in zip(
            tensors["steps"].tolist(), tensors["epochs"].tolist(), *parts.values(), strict=True
        ):
            release = Release(step, epoch, **dict(zip(parts, values, strict=True)))
            _check_records(release, records)
            yield release
    except (RuntimeError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path} holds no valid releases: {reason} {_FIX}") from error


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
    tensors, _ = read_tensor_file(path, _IDS_KIND, ("lengths", "text"), fix=_FIX)
    text, ends = tensors["text"].numpy().tobytes(), tensors["lengths"].cumsum(0).tolist()
    if not ends or ends[-1] != len(text) or int(tensors["lengths"].min()) < 0:
        raise DataError(f"{path} is damaged: the lengths do not fill the text. {_FIX}")
    try:
        return tuple(
            text[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)
        )
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is damaged: an id is no UTF-8 text. {_FIX}") from error
