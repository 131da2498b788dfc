"""Category notices: what is said of columns of texts that a model will hardly learn from."""

import polars as pl

from cutlayer.data.column_encoding import CategoricalColumn
from cutlayer.data.encoding import MAX_CATEGORIES

_DATE = r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([T ].*)?$"
_MOSTLY = 0.9
"""Share of the different values that must read as dates."""


def many_categories(column: pl.Series) -> str | None:
    """What becomes of a column of texts that holds dates or very many categories, if it does.

    Args:
        column: texts or categories, null where missing.

    Returns:
        A notice of one or two sentences; ``None`` where there is nothing to say.

    >>> many_categories(pl.Series(["2024-01-31", "2024-02-01", None]))[:44]
    'its values look like dates, which are read a'
    """
    # A plain name: polars takes one such as "^n$" for a pattern.
    values = column.alias("cells").drop_nulls().unique().cast(pl.String)
    if values.is_empty():
        return None
    dates = values.str.strip_chars().str.contains(_DATE).mean()
    if isinstance(dates, float) and dates >= _MOSTLY:
        return (
            f"its values look like dates, which are read as {len(values):,} categories without an "
            "order. Write them as numbers, days since a fixed date say, or list the column under "
            "drop."
        )
    if len(values) > MAX_CATEGORIES:
        return (
            f"holds {len(values):,} categories. The {MAX_CATEGORIES} most frequent of the training "
            "records are told apart, and all others count as one."
        )
    return None


def without_slot(column: pl.Series, fitted: CategoricalColumn) -> str | None:
    """How many cells hold a category that a trained model does not tell from others, if any do.

    Args:
        column: texts or categories of records to predict, null where missing.
        fitted: what the training taught about the column.

    Returns:
        A notice; ``None`` where every cell is missing or holds a category that is told apart.
    """
    slots = fitted.slot_of(column)
    others = int(((slots == len(fitted.categories)) & column.is_not_null().to_numpy()).sum())
    if not others:
        return None
    return (
        f"{others:,} of {len(column):,} records hold a category that was not in the training "
        "records, or was too rare there; the model reads all of these alike."
    )
