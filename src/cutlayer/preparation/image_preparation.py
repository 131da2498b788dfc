"""Image preparation: from images as downloaded to shards of small ones, uint8."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY
from cutlayer.data.prepared_files import shard_name
from cutlayer.data.split import hashed_place
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.preparation.options import ImageOptions, Progress
from cutlayer.preparation.output import (
    FOLDERS,
    Prepared,
    join_rejects,
    keep_rejects,
    made,
    part_counts,
    require_both_labels,
    silent,
    source_mark,
    summary,
    tally_behind,
    versions,
)
from cutlayer.preparation.raw_images import ImageEntry, RawImages, decoded
from cutlayer.preparation.rejects import Reject, rejects_csv
from cutlayer.preparation.work_folder import Json, WorkFolder

_STAGE: Final = "resizing"


def prepare_images(
    raw: RawImages, out: Path, options: ImageOptions, progress: Progress | None = None
) -> Prepared:
    """Resize images into shards: pixels at the non-label party, labels at the label party.

    Pixels lie in ``part-00000.npy``, uint8 ``(images, size, size, 3)``, so that single images can
    be read; ids and parts beside them in ``part-00000.parquet``. A run that was killed goes on
    behind the last shard that was finished; the output is the same to the byte.

    Args:
        raw: from :func:`~cutlayer.preparation.raw_images.raw_images`.
        out: the folder to be made. Until it is whole, everything lies in ``OUT.partial``.
        options: size, how many negatives to keep, the split.
        progress: hears how far the run is.

    Raises:
        ConfigurationError: ``out`` or its partial folder belongs to another run, or Pillow is not
            installed.
        DataError: the table is damaged, or too many images are broken.
    """
    entries, unnamed = raw.entries()
    chosen = kept_entries(entries, options)
    run = _Run(raw, options, tuple(chosen), tuple(unnamed), progress or silent)
    return made(out, run.plan(len(entries)), run.write)


def kept_entries(entries: Sequence[ImageEntry], options: ImageOptions) -> list[ImageEntry]:
    """All positives and so many negatives, in the order given.

    Negatives are those whose ids hash lowest, so that the choice hangs on ids and seed alone.

    Args:
        entries: named images.
        options: ``negatives_per_positive`` and ``split.seed``.
    """
    if options.negatives_per_positive is None:
        return list(entries)
    negatives = [entry.id for entry in entries if not entry.label]
    wanted = options.negatives_per_positive * (len(entries) - len(negatives))
    if wanted >= len(negatives):
        return list(entries)
    # A prefix, or the kept ones would all fall into one part of the split.
    place = hashed_place([f"keep {name}" for name in negatives], seed=options.split.seed)
    lowest = np.argsort(place, kind="stable")[:wanted]
    kept = {negatives[row] for row in lowest.tolist()}
    return [entry for entry in entries if entry.label or entry.id in kept]


@dataclass(frozen=True)
class _Run:
    """One preparation."""

    raw: RawImages
    options: ImageOptions
    entries: tuple[ImageEntry, ...]
    unnamed: tuple[Reject, ...]
    progress: Progress

    def plan(self, found: int) -> Json:
        """Everything that the output depends on, apart from the image files themselves."""
        listing = blake2b(digest_size=16)
        for entry in self.entries:
            listing.update(f"{entry.id}\0{entry.label}\n".encode())
        path = self.raw.path
        source = source_mark(path) if path.is_file() else {"name": path.name}
        return {
            "versions": versions(),
            "data": "isic",
            "source": {**source, "images": found, "listing": listing.hexdigest()},
            "options": self.options.as_plan(),
        }

    def write(self, work: WorkFolder) -> None:
        """Write all shards that are not there yet, then finish the folder."""
        message = FileMessage(LABEL_PARTY, self.raw.path)
        shards = work.shards()
        tally = tally_behind(work, shards, message, self.options.max_rejects)
        tally.add(0, self.unnamed)
        step = self.options.shard_rows
        for number in range(len(shards), -(-len(self.entries) // step)):
            first = number * step
            manifest, rejects = self._shard(work, number, first, first + step)
            shards.append(manifest)
            tally.add(manifest["rows"], rejects)
        tally.conclude()
        require_both_labels(message, sum(one["positives"] for one in shards), tally.accepted)
        join_rejects(work, len(shards), before=rejects_csv(self.unnamed))
        work.finish(self._schema(shards))

    def _shard(
        self, work: WorkFolder, number: int, first: int, end: int
    ) -> tuple[Json, list[Reject]]:
        """Decode and write some entries."""
        images: list[NDArray[np.uint8]] = []
        sound: list[ImageEntry] = []
        rejects: list[Reject] = []
        entries = list(self.entries[first:end])
        for entry, data in zip(entries, self.raw.files(entries), strict=True):
            found = decoded(data, self.options.size)
            if isinstance(found, str):
                rejects.append(Reject(entry.line, found))
            else:
                images.append(found)
                sound.append(entry)
            looked = first + len(images) + len(rejects)
            self.progress(_STAGE, rows=looked, done=looked, total=len(self.entries))
        keep_rejects(work, number, rejects_csv(rejects))
        size = self.options.size
        pixels = np.stack(images) if images else np.empty((0, size, size, 3), dtype=np.uint8)
        frame = self._frame(sound)
        of_label_party, of_non_label_party = FOLDERS[LABEL_PARTY], FOLDERS[NON_LABEL_PARTY]
        files = {
            f"{of_label_party}/{shard_name(number)}": frame.write_parquet,
            f"{of_non_label_party}/{shard_name(number)}": frame.drop("label").write_parquet,
            f"{of_non_label_party}/{shard_name(number, 'npy')}": lambda path: _save(path, pixels),
        }
        manifest = {
            "rows": len(sound),
            "rejected": len(rejects),
            "positives": int(frame["label"].sum()),
            "parts": part_counts(frame["part"]),
            "entries": [first, min(end, len(self.entries))],
        }
        return work.keep_shard(number, files, manifest), rejects

    def _frame(self, entries: Sequence[ImageEntry]) -> pl.DataFrame:
        """Id, part and label."""
        ids = pl.Series("id", [entry.id for entry in entries], dtype=pl.String)
        part = self.options.split.parts_of(ids).alias("part")
        labels = pl.Series("label", [entry.label for entry in entries], dtype=pl.Int8)
        return pl.DataFrame([ids, part, labels])

    def _schema(self, shards: list[Json]) -> Json:
        """What the reader needs."""
        whole = summary(shards)
        whole["rejected"] += len(self.unnamed)
        size = self.options.size
        nothing: Json = {"numbers": [], "categories": {}}
        parties = {
            LABEL_PARTY: {"folder": FOLDERS[LABEL_PARTY], **nothing},
            NON_LABEL_PARTY: {
                "folder": FOLDERS[NON_LABEL_PARTY],
                **nothing,
                "image": [3, size, size],
            },
        }
        return {"kind": "images", **whole, "parties": parties}


def _save(path: Path, pixels: NDArray[np.uint8]) -> None:
    """A .npy file whatever the path ends with."""
    with path.open("wb") as file:
        np.save(file, pixels, allow_pickle=False)
