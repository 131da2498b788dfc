"""Table keys: how one party's file is read, with the keys that a party configuration has."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from cutlayer.data import TableFile


class TableKeys(BaseModel):
    """One table of a sweep's configuration; unknown keys are errors.

    The names are those of the party commands, so that a party's file can be copied.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path
    id: str
    group: str | None = None
    delimiter: str | None = None
    header: bool = True
    column_names: tuple[str, ...] | None = None
    quote: str = '"'
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    decimal: Literal[".", ","] = "."
    missing: tuple[str, ...] = ("",)
    strip: bool = True
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    label: str | None = None
    """At the label party only."""
    positive: str | int | float | bool | None = None
    negative: Literal["rest"] | None = None

    def table_file(self) -> TableFile:
        """How to read the file.

        Raises:
            ConfigurationError: two keys contradict each other.
        """
        settings = self.model_dump()
        names = {"file": "path", "id": "id_column", "group": "group_column"}
        names["label"] = "label_column"
        return TableFile(**{names.get(key, key): value for key, value in settings.items()})
