"""Category notices: what is said of records whose categories a trained model does not know."""

import polars as pl

from cutlayer.data.column_encoding import CategoricalColumn


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
