"""Feature screening: leave out columns that nothing can be learned from, and say so."""

from typing import Final

import polars as pl

from cutlayer.data.cell_values import CellRules
from cutlayer.data.column_choice import Kind
from cutlayer.data.column_reading import Cells

MIN_ID_LIKE_ROWS: Final = 20
"""Below so many rows, texts that all differ prove nothing."""
ID_LIKE_SHARE: Final = 0.95
"""A text column is like an id where so many of its values differ."""

_MOSTLY: Final = 0.5


def reason_to_drop(column: pl.Series, kind: Kind) -> str | None:
    """Why nothing can be learned from a column; ``None`` where something can.

    ====================================  ======================================================
    column                                decision
    ====================================  ======================================================
    no value at all                       dropped
    one value, none missing               dropped
    one value, some missing               kept: being missing may tell
    texts, 95 % of 20 or more differ      dropped as a name of the record, unless ``categorical``
    20 or more whole numbers, each once,  dropped as a row number, unless ``numeric``
    without a gap
    ====================================  ======================================================

    Args:
        column: numbers or categories, null where missing.
        kind: what the user says about it.
    """
    column = column.alias("cells")
    present = len(column) - column.null_count()
    if present == 0:
        return "all of its cells are empty"
    different = column.n_unique() - (column.null_count() > 0)
    if different == 1:
        if column.null_count():
            return None
        return f"all of its cells hold {column[0]!r}"
    if present < MIN_ID_LIKE_ROWS:
        return None
    if column.dtype == pl.Categorical and kind != "categorical":
        if different > ID_LIKE_SHARE * present:
            return (
                f"{different:,} different texts in {present:,} rows are names of records, not "
                "categories; list it under categorical to keep it"
            )
        return None
    if column.dtype.is_integer() and kind != "numeric" and different == len(column):
        low, high = int(str(column.min())), int(str(column.max()))
        if high - low == different - 1:
            return (
                f"it numbers the rows from {low} to {high} without a gap; list it under numeric to "
                "keep it"
            )
    return None


def mostly_numbers(column: pl.Series, other: Cells, rules: CellRules) -> str | None:
    """What to say about categories most of which are numbers; ``None`` where they are not.

    Args:
        column: categories.
        other: the cells that are no numbers.
        rules: how a number is written.
    """
    counts = column.alias("value").drop_nulls().value_counts(name="rows")
    texts = counts["value"].cast(pl.String)
    numbers = rules.numbers_from(texts).is_not_null()
    share = float(counts["rows"].filter(numbers).sum()) / max(1, len(column) - column.null_count())
    if share < _MOSTLY:
        return None
    return (
        f"read as categories, because {other.first}, though {share:.0%} of its values are numbers. "
        f"List it under categorical if that is right; if not, mend the cells or list "
        f"{other.text!r} under missing."
    )
