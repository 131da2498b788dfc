"""The output of a preparation: file names, manifests, and what the schema tells of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from importlib.metadata import version
from pathlib import Path
from typing import Final

import polars as pl

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName
from cutlayer.data.prepared_files import FORMAT
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.preparation.options import PARTS
from cutlayer.preparation.rejects import HEADER, RejectTally
from cutlayer.preparation.work_folder import REJECTS_FILE, Json, WorkFolder, write_whole

FOLDERS: Final[dict[PartyName, str]] = {
    LABEL_PARTY: "label_party",
    NON_LABEL_PARTY: "non_label_party",
}


@dataclass(frozen=True)
class Prepared:
    """What a preparation made."""

    folder: Path
    rows: int
    rejected: int
    parts: dict[str, int]
    """Rows that train, validate and test."""
    notices: tuple[str, ...] = ()
    """What was decided about the columns unasked, one line each."""


def made(out: Path, plan: Json, write: Callable[[WorkFolder], None]) -> Prepared:
    """The folder that a plan makes: written unless it is there, and nothing else left beside it.

    Args:
        out: the folder.
        plan: everything that the output depends on.
        write: goes on behind the shards that are kept, and finishes the folder.

    Raises:
        ConfigurationError: ``out`` or its partial folder belongs to another run.
    """
    work = WorkFolder(out, plan)
    if not work.finished:
        with work:
            if not work.finished:  # another process may have ended meanwhile
                write(work)
    work.clear()
    schema = work.schema()
    notices = tuple(schema.get("notices", ()))  # images have none
    return Prepared(out, schema["rows"], schema["rejected"], schema["parts"], notices)


def source_mark(path: Path) -> Json:
    """By what a file is known again: name, size, and a digest of all of it.

    A label that was corrected in the middle changes neither size nor ends, so all is read, at about
    1 GB/s.
    """
    with path.open("rb") as file:
        digest = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "digest": digest}


def versions() -> Json:
    """What may change the bytes of the output."""
    return {"format": FORMAT, "cutlayer": version("cutlayer"), "polars": version("polars")}


def part_counts(parts: pl.Series) -> dict[str, int]:
    """How many rows each part has."""
    return {part: int((parts == part).sum()) for part in PARTS}


def summary(shards: list[Json]) -> Json:
    """Rows, rejects, parts and shard sizes."""
    return {
        "rows": sum(shard["rows"] for shard in shards),
        "rejected": sum(shard["rejected"] for shard in shards),
        "parts": {part: sum(shard["parts"][part] for shard in shards) for part in PARTS},
        "shards": [shard["rows"] for shard in shards],
    }


def tally_behind(
    work: WorkFolder, shards: Sequence[Json], message: FileMessage, max_share: float
) -> RejectTally:
    """The tally of a pass that goes on behind some finished shards, whose rejects it has listed."""
    _list_rejects(work, work.rejects, len(shards))
    accepted = sum(shard["rows"] for shard in shards)
    rejected = sum(shard["rejected"] for shard in shards)
    return RejectTally(message, max_share, work.rejects, accepted, rejected)


def keep_rejects(work: WorkFolder, number: int, lines: bytes) -> None:
    """Keep the rejects of a shard until the end; do so before its manifest, which calls it whole.

    Args:
        work: the folder in work.
        number: of the shard.
        lines: what :func:`~cutlayer.preparation.rejects.rejects_csv` makes of its rejects.
    """
    write_whole(_rejects_of(work, number), lambda path: _put(path, lines))


def join_rejects(work: WorkFolder, shards: int, before: bytes = b"") -> None:
    """One file of all rejects, piece by piece."""
    write_whole(work.staging / REJECTS_FILE, lambda path: _list_rejects(work, path, shards, before))


def _list_rejects(work: WorkFolder, path: Path, shards: int, before: bytes = b"") -> None:
    """The rejects before the first shard and of finished shards."""
    with path.open("wb") as file:
        file.write((",".join(HEADER) + "\n").encode() + before)
        for number in range(shards):
            file.write(_rejects_of(work, number).read_bytes())


def _rejects_of(work: WorkFolder, number: int) -> Path:
    """Where the rejects of one shard are kept."""
    return work.state_file(f"rejects-{number:05d}.csv")


def _put(path: Path, data: bytes) -> None:
    """Write some bytes."""
    path.write_bytes(data)


def require_both_labels(message: FileMessage, positives: int, rows: int) -> None:
    """Refuse rows of one class: no training could use them, and a wrong label makes them.

    Raises:
        DataError: all labels are the same.
    """
    if positives in (0, rows):
        one = "negative" if positives == 0 else "positive"
        raise message.error(
            f"must hold both labels, but all {rows:,} rows are {one}. Look at the label's column "
            "and at which of its values is the positive one."
        )


def silent(stage: str, *, rows: int, done: int, total: int) -> None:
    """Tells nobody."""
