"""Table keys: one party's file in a sweep, with the keys that a party's configuration has."""

from dataclasses import replace
from typing import Literal

from typing_extensions import override

from cutlayer.data import TableFile
from cutlayer.runs.reading_keys import ReadingKeys


class TableKeys(ReadingKeys):
    """One table of a sweep's configuration; unknown keys are errors.

    The names are those of the party commands, so that a party's file can be copied.
    """

    label: str | None = None
    """At the label party only."""
    positive: str | int | float | bool | None = None
    negative: Literal["rest"] | None = None

    @override
    def table_file(self) -> TableFile:
        return replace(
            super().table_file(),
            label_column=self.label,
            positive=self.positive,
            negative=self.negative,
        )
