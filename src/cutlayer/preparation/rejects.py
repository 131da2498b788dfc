"""Rejects: rows that cannot be used, counted, and written down with line and reason."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cutlayer.data.tables.file_message import FileMessage

HEADER: Final = ("line", "reason")

_JUDGED_FROM: Final = 10_000
_SHOWN: Final = 3


@dataclass(frozen=True)
class Reject:
    """One row that is left out. The reason names columns and never the value of a cell."""

    line: int
    """Line of the text file, from 1; row from 1 of a Parquet file; 0 where there is neither."""
    reason: str


@dataclass
class RejectTally:
    """How many rows were taken and left out, and whether that is still a sound file."""

    message: FileMessage
    max_share: float
    listing: Path
    """Where rejects are listed as they are seen, below a header; a run that stops leaves it."""
    accepted: int = 0
    rejected: int = 0
    first: list[Reject] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """All rows seen."""
        return self.accepted + self.rejected

    def add(self, accepted: int, rejects: Iterable[Reject]) -> None:
        """Count the rows of one block.

        Raises:
            DataError: 10,000 rows were seen, and more than the allowed share is dirty.
        """
        new = list(rejects)
        self.accepted += accepted
        self.rejected += len(new)
        self.first += new[: _SHOWN - len(self.first)]
        if new:
            with self.listing.open("ab") as file:
                file.write(rejects_csv(new))
        if self.rows >= _JUDGED_FROM:
            self._judge()

    def conclude(self) -> None:
        """Judge the whole file.

        Raises:
            DataError: more than the allowed share is dirty, or no row is left.
        """
        self._judge()
        if self.accepted == 0:
            if self.rows == 0:
                raise self.message.error(
                    "must hold rows, but holds none. Look whether the file was cut off; lines must "
                    "end with a line feed, which old Macintosh text has not."
                )
            raise self.message.error(
                f"must hold rows to learn from, but none of {self.rows:,} can be used."
                f"{self._examples()}"
            )

    def _judge(self) -> None:
        """Refuse a file with too many dirty rows."""
        if self.rejected > self.max_share * self.rows:
            raise self.message.error(
                f"at most {self.max_share:.3g} of the rows may be dirty, but {self.rejected:,} of "
                f"{self.rows:,} are.{self._examples()} Check that this is the format you named (of "
                "a table, that --positive names the label's positive value), or allow more with "
                "--max-rejects."
            )

    def _examples(self) -> str:
        """The first rejects, and where to find all."""
        if not self.rejected:
            return ""
        first = "; ".join(f"line {one.line}: {one.reason}" for one in self.first)
        shown = f" First: {first}." if first else ""
        return f"{shown} All up to there are listed in {self.listing}."


def rejects_csv(rejects: Iterable[Reject]) -> bytes:
    """Lines of ``rejects.csv`` without its header."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows((one.line, one.reason) for one in rejects)
    return text.getvalue().encode()
