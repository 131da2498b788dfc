"""Target leakage: a single column that tells the label nearly without fail.

Such a column is mostly the label again, or was written down after the outcome was known. A model
trained with it looks perfect and is useless, and the joint training then measures nothing.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

THRESHOLD: Final = 0.99
"""AUC, or share of one class in a category, above which a column gives the label away."""
MIN_ROWS: Final = 20
"""Rows that each class, and a category, must have: fewer are pure by chance."""

MIN_SHARE: Final = 0.1
"""Share of its class that a pure category must hold to be worth a word."""

_ROWS_OF_CLASS: Final = 50_000
_MAX_NUMBERS: Final = 1_000


@dataclass(frozen=True)
class KnownLabels:
    """Labels to hold columns against: of all rows, or of a sample of each class."""

    values: NDArray[np.int64]
    """0 or 1, shape ``(rows,)``."""
    positive_share: float | None = None
    """Of all rows, where these are a sample; ``None``: of these."""


def column_giveaway(
    column: pl.Series, labels: NDArray[np.int64], *, positive_share: float | None = None
) -> str | None:
    r"""How a column gives the label away; ``None`` where it does not.

    Four ways are tried, on up to 50,000 rows of each class, evenly spread:

    1. whether the cell is filled: as a score, or by rows of nearly one class as in 4;
    2. numbers as a score: :math:`\max(\mathrm{AUC}, 1 - \mathrm{AUC}) > .99`;
    3. each value, "missing" among them, scored by the share of positives among *other* rows that
       hold it: :math:`\mathrm{AUC} > .99`. The even rows score the odd ones and the other way
       round, or a column of many rare values would look perfect by knowing its own rows. More
       than 1,000 different numbers are not looked at one by one;
    4. a value whose rows, 20 or more, are to 99 % of the class that is the rarer one overall, and
       make up a tenth of that class.

    Args:
        column: numbers or categories, null where missing, shape ``(rows,)``.
        labels: 0 or 1, shape ``(rows,)``.
        positive_share: of all rows, where these are a sample of each class; ``None``: of these.

    Returns:
        What is wrong, to follow the column's name; ``None`` also where a class has fewer than 20
        rows, for then a column can look so by chance.

    >>> labels = np.repeat([0, 1], 30)
    >>> column_giveaway(pl.Series(labels * 2.5), labels)
    'orders the label with an AUC of 1.0000'
    """
    rows = _spread(labels)
    if rows is None:
        return None
    picked, label = column.alias("cells").gather(rows), labels[rows]
    if positive_share is None:
        positive_share = float(labels.mean())
    if picked.null_count():
        reason = _filling_giveaway(picked.is_not_null().to_numpy(), label, positive_share)
        if reason is not None:
            return reason
    if picked.dtype.is_numeric():
        auc = _score_auc(picked, label)
        if auc > THRESHOLD:
            return f"orders the label with an AUC of {auc:.4f}"
        if picked.n_unique() > _MAX_NUMBERS:
            return None
    codes, names = _codes(picked)
    auc = _crossed_auc(codes, label)
    if auc > THRESHOLD:
        return f"tells the label value by value with an AUC of {auc:.4f}"
    return _pure_value(codes, names, label, positive_share=positive_share)


def order_giveaway(ids: pl.Series, labels: NDArray[np.int64]) -> str | None:
    """How the order of the ids gives the label away; ``None`` where it does not.

    The peer knows the ids. Where these were counted up over a file that was sorted by label, it
    knows the labels too. Ids that are all numbers are ordered as such, others as texts.
    """
    rows = _spread(labels)
    if rows is None:
        return None
    picked = ids.gather(rows)
    numbers = picked.cast(pl.Float64, strict=False)
    score = picked.rank("dense") if numbers.null_count() else numbers
    auc = _score_auc(score, labels[rows])
    return f"orders the label with an AUC of {auc:.4f}" if auc > THRESHOLD else None


def _spread(labels: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """Up to 50,000 rows of each class at even distances; ``None`` where a class is too small."""
    picked = []
    for label in (0, 1):
        rows = np.flatnonzero(labels == label)
        if len(rows) < MIN_ROWS:
            return None
        picked.append(rows[:: -(-len(rows) // _ROWS_OF_CLASS)])
    return np.concatenate(picked)


def _score_auc(scores: pl.Series, label: NDArray[np.int64]) -> float:
    """AUC of the rows that have a score, turned to at least 1/2; 1/2 where these are too few."""
    present = scores.is_not_null().to_numpy()
    label = label[present]
    if min(np.count_nonzero(label == 0), np.count_nonzero(label == 1)) < MIN_ROWS:
        return 0.5
    auc = _auc(label, scores.filter(scores.is_not_null()).to_numpy())
    return max(auc, 1 - auc)


def _auc(label: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    """AUC of scores."""
    from sklearn.metrics import roc_auc_score  # here: it takes long to load, and needs labels

    return float(roc_auc_score(label, scores))


def _filling_giveaway(
    filled: NDArray[np.bool_], label: NDArray[np.int64], positive_share: float
) -> str | None:
    """How it gives the label away whether a cell is filled; ``None`` where it does not."""
    codes = filled.astype(np.int64)
    pure = _pure_value(codes, pl.Series(["empty", "filled"]), label, positive_share=positive_share)
    if _crossed_auc(codes, label) <= THRESHOLD and pure is None:
        return None
    of_positives, of_negatives = (float(filled[label == value].mean()) for value in (1, 0))
    return (
        f"is filled in {of_positives:.1%} of the positive rows and in {of_negatives:.1%} of the "
        "negative rows"
    )


def _codes(column: pl.Series) -> tuple[NDArray[np.int64], pl.Series]:
    """A whole number for each value of the column, from 0, and the values in that order."""
    codes = (column.rank("dense") - 1).fill_null(-1)
    values = column.to_frame("value").with_columns(code=codes).unique("code").sort("code")
    shift = int(values["code"][0] == -1)
    return (codes.cast(pl.Int64) + shift).to_numpy(), values["value"]


def _crossed_auc(codes: NDArray[np.int64], label: NDArray[np.int64]) -> float:
    """Mean AUC of both halves, each scored by the other's shares of positives."""
    half = np.empty(len(label), dtype=np.int64)
    for value in (0, 1):
        half[label == value] = np.arange(np.count_nonzero(label == value)) % 2
    known = codes.max() + 1
    aucs = []
    for scored in (0, 1):
        learned = half != scored
        rows = np.bincount(codes[learned], minlength=known)
        positives = np.bincount(codes[learned], label[learned], minlength=known)
        share = np.where(rows > 0, positives / np.maximum(rows, 1), label[learned].mean())
        aucs.append(_auc(label[~learned], share[codes[~learned]]))
    return float(np.mean(aucs))


def _pure_value(
    codes: NDArray[np.int64],
    names: pl.Series,
    label: NDArray[np.int64],
    *,
    positive_share: float,
) -> str | None:
    """The largest value that nearly only rows of the rarer class hold."""
    rarer = int(positive_share <= 0.5)
    # The classes are thinned out differently, so each row counts for as many as it stands for.
    share = positive_share if rarer else 1 - positive_share
    weight = np.where(
        label == rarer, share / (label == rarer).mean(), (1 - share) / (label != rarer).mean()
    )
    rows = np.bincount(codes)
    inside = np.bincount(codes, weight * (label == rarer))
    purity = inside / np.bincount(codes, weight)
    of_class = inside / inside.sum()
    pure = (rows >= MIN_ROWS) & (purity > THRESHOLD) & (of_class > MIN_SHARE)
    if not pure.any():
        return None
    best = int(np.argmax(np.where(pure, of_class, 0)))
    kind = "positive" if rarer else "negative"
    value = names[best]
    held = "no value" if value is None else repr(value)
    return f"has {held} in {of_class[best]:.0%} of the {kind} rows and in nearly no other row"
