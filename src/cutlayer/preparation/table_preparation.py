"""Table preparation: two passes over a raw table, one to learn from training rows, one to write."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY
from cutlayer.data.prepared_files import shard_name
from cutlayer.data.tables.column_notices import lines_of
from cutlayer.errors import ConfigurationError
from cutlayer.preparation.category_counts import CategoryCounts
from cutlayer.preparation.layout import TypedRows
from cutlayer.preparation.number_statistics import NumberStatistics
from cutlayer.preparation.options import Progress, TableOptions
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
from cutlayer.preparation.raw_table import RawTable
from cutlayer.preparation.rejects import RejectTally, rejects_csv
from cutlayer.preparation.text_blocks import Position
from cutlayer.preparation.vocabulary import Coding, ExactCoding, HashedCoding, few_codes
from cutlayer.preparation.work_folder import Json, WorkFolder, write_whole

VOCABULARY_FILE: Final = "vocabulary.parquet"


def prepare_table(
    raw: RawTable, out: Path, options: TableOptions, progress: Progress | None = None
) -> Prepared:
    """Turn a raw table into shards for both parties, with memory that does not grow with the rows.

    The first pass learns the statistics of numbers and the vocabulary from training rows; it is
    left out where neither is needed (``hashed`` codes, numbers ``as-is`` or none). The second
    writes. A run that was killed goes on behind the last shard that was finished, or begins the
    first pass again; the output is the same to the byte.

    Args:
        raw: from :func:`~cutlayer.preparation.raw_table.criteo` or its siblings.
        out: the folder to be made. Until it is whole, everything lies in ``OUT.partial``.
        options: how columns become numbers, and the split.
        progress: hears how far the run is.

    Raises:
        ConfigurationError: ``out`` or its partial folder belongs to another run.
        DataError: the file is damaged, too many rows are dirty, no row trains, or a column has too
            many categories.
    """
    if not raw.features_of(NON_LABEL_PARTY):
        raise ConfigurationError(
            f"{raw.path}: the non-label party must get a column to learn from, but has none. Look "
            "at drop and label_party."
        )
    run = _Run(raw, options, progress or silent)
    return made(out, run.plan(), run.write)


@dataclass(frozen=True)
class _Run:
    """One preparation."""

    raw: RawTable
    options: TableOptions
    progress: Progress

    def plan(self) -> Json:
        """Everything that the output depends on."""
        return {
            "versions": versions(),
            "data": self.raw.name,
            "source": source_mark(self.raw.path),
            "layout": asdict(self.raw.layout),
            "label_party": self.raw.label_party,
            "options": self.options.as_plan(),
        }

    def _learnt(self, work: WorkFolder) -> tuple[NumberStatistics, Coding]:
        """Statistics and codes, from an earlier process if it got so far."""
        layout, options = self.raw.layout, self.options
        hashed = HashedCoding(layout.categories, options.hash_bits)
        counted = options.vocabulary == "exact" and bool(layout.categories)
        statistics = NumberStatistics.empty(options.numbers, len(layout.numbers))
        measured = options.numbers != "as-is" and bool(layout.numbers)
        if not (counted or measured):
            return statistics, hashed if options.vocabulary == "hashed" else ExactCoding(())
        known, kept = work.state("statistics"), work.state_file(VOCABULARY_FILE)
        if known is not None:
            statistics = NumberStatistics.from_json(known, len(layout.numbers))
            frame = pl.read_parquet(kept)
            exact = ExactCoding.from_frame(frame, layout.categories if counted else ())
        else:
            counts = CategoryCounts(len(layout.categories) if counted else 0, work.spill)
            self._first_pass(work, statistics, counts)
            names = layout.categories if counted else ()
            exact = ExactCoding.from_counts(counts.frequent(options.min_count), names)
            write_whole(kept, exact.as_frame(names).write_parquet)
            work.keep_state("statistics", statistics.to_json())
        return statistics, hashed if options.vocabulary == "hashed" else exact

    def _first_pass(
        self, work: WorkFolder, statistics: NumberStatistics, counts: CategoryCounts
    ) -> None:
        """Learn from the training rows of the whole file."""
        tally = tally_behind(work, [], self.raw.message, self.options.max_rejects)
        training = positives = 0
        counted = self.options.vocabulary == "exact"
        for rows, _ in self._typed_blocks("learning", Position(), tally):
            train = self.options.split.parts_of(rows.ids) == "train"
            training += int(train.sum())
            positives += int(rows.labels.sum())
            statistics.add(rows.numbers[train.to_numpy()])
            counts.add([values.filter(train) for values in rows.categories] if counted else [])
        tally.conclude()
        if training == 0:
            raise self.raw.message.error(
                f"must hold rows to learn from, but none of {tally.accepted:,} trains. Bring more "
                "rows, or give validation and test smaller shares."
            )
        require_both_labels(self.raw.message, positives, tally.accepted)

    def write(self, work: WorkFolder) -> None:
        """Learn, write all shards that are not there yet, then finish the folder."""
        statistics, coding = self._learnt(work)
        shards = work.shards()
        tally = tally_behind(work, shards, self.raw.message, self.options.max_rejects)
        start = Position(**shards[-1]["end"]) if shards else Position()
        shard_in_work = _Shard(self.raw, start)
        for rows, end in self._typed_blocks("writing", start, tally):
            shard_in_work.add(rows, self._encoded(rows, statistics, coding), end)
            if shard_in_work.rows >= self.options.shard_rows:
                shards.append(shard_in_work.keep(work, len(shards)))
                shard_in_work = _Shard(self.raw, end)
        if shard_in_work.looked_at:
            shards.append(shard_in_work.keep(work, len(shards)))
        tally.conclude()
        positives = sum(shard["positives"] for shard in shards)
        require_both_labels(self.raw.message, positives, tally.accepted)
        self._finish(work, shards, statistics, coding)

    def _typed_blocks(
        self, stage: str, start: Position, tally: RejectTally
    ) -> Iterator[tuple[TypedRows, Position]]:
        """Checked rows block by block, counted."""
        source = self.raw.open(self.options.block_bytes)
        for block in source.blocks(start if start != Position() else source.start):
            rows = self.raw.layout.typed(block)
            tally.add(len(rows.ids), rows.rejects)
            yield rows, block.end
            self.progress(stage, rows=block.end.row, done=block.read, total=source.size)

    def _encoded(
        self, rows: TypedRows, statistics: NumberStatistics, coding: Coding
    ) -> dict[str, pl.Series]:
        """Every feature by name: numbers float32, codes int32."""
        layout = self.raw.layout
        scaled = statistics.scaled(rows.numbers, layout.numbers)
        numbers = {
            name: pl.Series(np.ascontiguousarray(scaled[:, place]))
            for place, name in enumerate(layout.numbers)
        }
        codes = {
            name: coding.codes(place, rows.categories[place])
            for place, name in enumerate(layout.categories)
        }
        part = self.options.split.parts_of(rows.ids)
        return {"id": rows.ids, "part": part, "label": rows.labels} | numbers | codes

    def _finish(
        self, work: WorkFolder, shards: list[Json], statistics: NumberStatistics, coding: Coding
    ) -> None:
        """Vocabularies, rejects and the schema; then the folder is whole."""
        layout, options = self.raw.layout, self.options
        for party, folder in FOLDERS.items():
            if isinstance(coding, ExactCoding) and layout.categories:
                frame = coding.as_frame(layout.categories)
                own = frame.filter(pl.col("column").is_in(self.raw.features_of(party)))
                write_whole(work.staging / folder / VOCABULARY_FILE, own.write_parquet)
        join_rejects(work, len(shards))
        totals = summary(shards)
        rare = few_codes(coding, layout.categories, totals["parts"]["train"], options.min_count)
        rare = [notice for notice in rare if notice.column not in self.raw.noticed]
        told = lines_of(rare, lambda text, column: self.raw.message.notice(text, column=column))
        sizes = dict(zip(layout.categories, coding.sizes, strict=True)) if layout.categories else {}
        work.finish(
            {
                "kind": "table",
                **totals,
                "parties": {
                    party: {
                        "folder": folder,
                        "numbers": [n for n in self.raw.features_of(party) if n in layout.numbers],
                        "categories": {
                            n: sizes[n] for n in self.raw.features_of(party) if n in sizes
                        },
                    }
                    for party, folder in FOLDERS.items()
                },
                "statistics": {"columns": layout.numbers, **statistics.to_json()},
                "notices": [*self.raw.notices, *told],
            }
        )


class _Shard:
    """Encoded rows of one shard, until they are written."""

    def __init__(self, raw: RawTable, start: Position) -> None:
        self._raw, self._start = raw, start
        self._end = start
        self._frames: list[pl.DataFrame] = []
        self._rejects = b""
        self._rejected = self.rows = 0

    @property
    def looked_at(self) -> bool:
        """Whether it covers any row of the source."""
        return bool(self._frames)

    def add(self, rows: TypedRows, encoded: dict[str, pl.Series], end: Position) -> None:
        """Take the rows of one block."""
        self._frames.append(pl.DataFrame(encoded))
        self._rejects += rejects_csv(rows.rejects)
        self._rejected += len(rows.rejects)
        self.rows += len(rows.ids)
        self._end = end

    def keep(self, work: WorkFolder, number: int) -> Json:
        """Write both parties' files."""
        whole = pl.concat(self._frames)
        files: dict[str, Callable[[Path], Any]] = {}
        for party, folder in FOLDERS.items():
            shared = ["id", "part", "label"] if party == LABEL_PARTY else ["id", "part"]
            frame = pl.DataFrame([whole[name] for name in (*shared, *self._raw.features_of(party))])
            files[f"{folder}/{shard_name(number)}"] = frame.write_parquet
        keep_rejects(work, number, self._rejects)
        manifest = {
            "rows": self.rows,
            "rejected": self._rejected,
            "positives": int(whole["label"].sum()),
            "parts": part_counts(whole["part"]),
            "start": asdict(self._start),
            "end": asdict(self._end),
        }
        return work.keep_shard(number, files, manifest)
