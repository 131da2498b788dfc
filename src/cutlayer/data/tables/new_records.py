"""New records: what is said of records to predict whose cells are unlike those of the training."""

import math

import polars as pl

from cutlayer.data.column_encoding import CategoricalColumn, NumericColumn

_DEVIATIONS = 5
"""So many standard deviations above the count that the training's share lets one expect."""


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


def without_value(column: pl.Series, fitted: NumericColumn | CategoricalColumn) -> str | None:
    """How many cells are missing, if that is unlike the training.

    It is where nothing was missing in training; or where more than twice the share are, by more
    than chance; or where all are.

    Args:
        column: of records to predict, null or NaN where missing.
        fitted: what the training taught about the column.

    Returns:
        A notice; ``None`` where no more are missing than may be expected.
    """
    cells = column.alias("cells")
    if cells.dtype.is_float():
        cells = cells.fill_nan(None)
    rows, gone = len(cells), cells.null_count()
    share = fitted.missing
    if share is None and isinstance(fitted, NumericColumn) and not fitted.marks_missing:
        share = 0.0
    if not gone or not _more_than_expected(gone, rows, share):
        return None
    known = "" if share is None else f", where {_shown(share)}"
    if isinstance(fitted, CategoricalColumn):
        read = "as it reads rare categories"
    else:
        read = "as missing" if fitted.marks_missing else "as the training mean"
    every = "all" if gone == rows else f"{gone:,} of"
    return f"{every} {rows:,} records have no value{known}. The model reads these {read}."


def _more_than_expected(gone: int, rows: int, share: float | None) -> bool:
    """Whether so many missing cells are unlike a training with that share of them.

    If all are, no more than twice the share can be: then it is enough that many are not expected.
    """
    if share is None:
        return gone == rows and rows > _DEVIATIONS
    expected = rows * share
    spread = math.sqrt(expected * (1 - share))
    all_of_many = gone == rows and rows - expected > _DEVIATIONS**2
    return all_of_many or (gone > 2 * expected and gone > expected + _DEVIATIONS * spread)


def _shown(share: float) -> str:
    """How many training records had no value."""
    if share == 0:
        return "every training record had one"
    percent = "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"
    return f"{percent} of the training records had none"
