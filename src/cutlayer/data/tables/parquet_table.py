"""Parquet: a table whose columns are read one at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.table_source import RowBatch
from cutlayer.errors import DataError

MOST_DIGITS: Final = 38
"""Of a decimal that can be read; Parquet stores up to 76."""

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
            self._kinds = pl.scan_parquet(path, glob=False).collect_schema()
            rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        except _DAMAGE as error:
            raise damaged(error, message) from error
        if rows == 0:
            raise message.error("must hold rows, but has none. Give the file with the rows.")

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in the order of the file, unique."""
        return tuple(self._kinds)

    def batches(self, columns: Sequence[str]) -> Iterator[RowBatch]:
        """All rows of each column, in the kind that is stored.

        Raises:
            DataError: the file is damaged, or a column holds numbers of too many digits.
        """
        for name in columns:
            require_readable(name, self._kinds[name], self._message)
            place = self.names.index(name)  # as a name "^n$" would be a pattern
            try:
                frame = pl.read_parquet(self._path, columns=[place], glob=False)
            except _DAMAGE as error:
                raise damaged(error, self._message, column=name) from error
            yield RowBatch(frame, lambda row: f"row {row + 1}")


def require_readable(name: str, kind: pl.DataType, message: FileMessage) -> None:
    """Refuse a column whose numbers have more digits than are read (decimal256, BIGNUMERIC).

    Raises:
        DataError: they do.
    """
    if isinstance(kind, pl.Decimal) and (kind.precision or 0) > MOST_DIGITS:
        raise message.error(
            f"decimals may have up to {MOST_DIGITS} digits, but the column is of type "
            f"decimal({kind.precision}, {kind.scale}). List it under drop, or store it as float64, "
            "as a decimal of fewer digits, or as text.",
            column=name,
        )


def damaged(error: BaseException, message: FileMessage, *, column: str | None = None) -> DataError:
    """The error for what polars could not read of a Parquet file."""
    why = str(error).partition("\n")[0][:200] or type(error).__name__
    return message.error(
        f"must be a whole Parquet file, but: {why}. Write it again.", column=column
    )
