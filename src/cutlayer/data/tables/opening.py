"""Opening: which format a table file has, and its columns; neither labels nor torch are needed."""

from pathlib import Path

from cutlayer.data.tables.delimited_text import DelimitedText, TextFormat
from cutlayer.data.tables.file_message import FileMessage, listing, nearest
from cutlayer.data.tables.parquet_table import ParquetTable, is_parquet
from cutlayer.data.tables.table_source import TableSource


def open_table(path: Path, form: TextFormat, message: FileMessage) -> TableSource:
    """The file as batches of columns, whatever its format.

    Args:
        path: of the file. Parquet is known by its first and last bytes.
        form: how the text is written, if it is one.
        message: words the errors.

    Raises:
        DataError: there is no such file, it is damaged or empty, or it is Parquet and ``form``
            names a delimiter or no header.
    """
    _require_file(path, message)
    if not is_parquet(path, message):
        return DelimitedText(path, form, message)
    if form.delimiter is not None or not form.header:
        raise message.error(
            "is Parquet, which has names and no delimiter. Leave delimiter and header out."
        )
    return ParquetTable(path, message)


def _require_file(path: Path, message: FileMessage) -> None:
    """Refuse a path that leads to no file; names files beside it that are called alike."""
    if path.is_file():
        return
    if path.is_dir():
        raise message.error("must be one file, but is a folder. Give the file in it.")
    if path.exists():
        raise message.error("must be a regular file, as it may be read twice. Save it as one.")
    beside = path.parent
    if not beside.is_dir():
        raise message.error(
            f"does not exist, nor does the folder {beside.absolute()}. Mend the path, which starts "
            "at the folder in which the command runs."
        )
    near = nearest(path.name, (entry.name for entry in beside.iterdir()))
    where = f"does not exist in the folder {beside.resolve()}. "
    raise message.error(where + (f"Did you mean {listing(near)}?" if near else "Mend the path."))
