"""Parquet: a table whose columns are read one at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from cutlayer.data.file_message import FileMessage
from cutlayer.data.table_source import RowBatch
from cutlayer.errors import DataError

_MAGIC: Final = b"PAR1"
# Damaged bytes make polars panic in places where it expects sound ones.
_DAMAGE: Final = (PolarsError, PanicException, OSError)
_SUFFIXES: Final = (".parquet", ".parq", ".pq")


def is_parquet(path: Path, message: FileMessage) -> bool:
    """Whether the file begins and ends as Parquet does.

    Raises:
        DataError: it only begins so, only its name says so, or it cannot be opened.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
            size = file.seek(0, 2)
            file.seek(max(0, size - len(_MAGIC)))
            end = file.read()
    except OSError as error:
        raise message.unreadable(error) from error
    if begin == _MAGIC and end == _MAGIC and size > 2 * len(_MAGIC):
        return True
    if begin == _MAGIC:
        raise message.error(
            "a Parquet file must end with PAR1, but this one does not: it is cut off. Copy it "
            "again."
        )
    if path.suffix.lower() in _SUFFIXES:
        raise message.error(
            f"a Parquet file must begin with PAR1, but this one begins with {begin!r}. Give a real "
            "Parquet file, or rename a delimited text to .csv."
        )
    return False


class ParquetTable:
    """One Parquet file. A ``TableSource``.

    Raises:
        DataError: the file cannot be read as Parquet, or has no rows.
    """

    notices: tuple[str, ...] = ()
    hint = ""

    def __init__(self, path: Path, message: FileMessage) -> None:
        self._path, self._message = path, message
        try:
            self._names = tuple(pl.scan_parquet(path, glob=False).collect_schema())
            rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        except _DAMAGE as error:
            raise self._damaged(error) from error
        if rows == 0:
            raise message.error("must hold rows, but has none. Give the file with the rows.")

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in the order of the file, unique."""
        return self._names

    def batches(self, columns: Sequence[str]) -> Iterator[RowBatch]:
        """All rows of each column, in the kind that is stored.

        Raises:
            DataError: the file is damaged.
        """
        for name in columns:
            place = self._names.index(name)  # as a name "^n$" would be a pattern
            try:
                frame = pl.read_parquet(self._path, columns=[place], glob=False)
            except _DAMAGE as error:
                raise self._damaged(error) from error
            yield RowBatch(frame, lambda row: f"row {row + 1}")

    def _damaged(self, error: BaseException) -> DataError:
        """The error for what polars could not read."""
        why = str(error).partition("\n")[0][:200] or type(error).__name__
        return self._message.error(f"must be a whole Parquet file, but: {why}. Write it again.")
