"""Reading keys: how one party's file is read, in the configuration of a party or of a sweep."""

from pathlib import Path

from pydantic import ConfigDict

from cutlayer.data import TableFile
from cutlayer.data.tables.cell_values import Decimal
from cutlayer.data.tables.record_blocks import Encoding
from cutlayer.runs.written_values import WrittenKeys


class ReadingKeys(WrittenKeys):
    """What must be known to read a file; :class:`~cutlayer.data.TableFile` says what each means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path
    id: str
    group: str | None = None
    delimiter: str | None = None
    header: bool = True
    column_names: tuple[str, ...] | None = None
    quote: str = '"'
    encoding: Encoding = "utf-8"
    decimal: Decimal = "."
    missing: tuple[str, ...] = ("",)
    strip: bool = True
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()

    def table_file(self) -> TableFile:
        """How to read the file.

        Raises:
            ConfigurationError: two keys contradict each other.
        """
        return TableFile(
            path=self.file,
            id_column=self.id,
            group_column=self.group,
            delimiter=self.delimiter,
            header=self.header,
            column_names=self.column_names,
            quote=self.quote,
            encoding=self.encoding,
            decimal=self.decimal,
            missing=self.missing,
            strip=self.strip,
            keep=self.keep,
            drop=self.drop,
            numeric=self.numeric,
            categorical=self.categorical,
        )
