"""Code columns: whole numbers that may be codes ("type 33 of 41") and not quantities."""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

MIN_DIFFERENT: Final = 3
"""Of two values it does not matter whether they are numbers or categories."""
MIN_ROWS_PER_VALUE: Final = 5
"""Codes repeat; amounts and identifiers hardly do."""

_SHORT: Final = 10
"""So many different values show no order in their frequencies."""
_SMOOTH: Final = 0.6


def different_codes(column: pl.Series) -> int | None:
    r"""How many different codes a column may hold; ``None`` where it rather holds quantities.

    Quantities have an order, and it shows: neighbouring values are about equally frequent. Codes
    were numbered in no order that matters. Let :math:`r_i` be the rank of the frequency of the
    :math:`i`-th smallest value; the ratio

    .. math:: \frac{\sum_i (r_{i+1} - r_i)^2}{\sum_i (r_i - \bar r)^2}

    is near 2 for frequencies in no order, and near 0 for smooth ones.

    ======================================================  =====================================
    column of whole numbers                                 decision
    ======================================================  =====================================
    one or two different values                             makes no difference
    fewer than 5 rows for each different value              quantities
    counted from 0 or 1 up, each value rarer than the last  quantities (how many of something)
    fewer than 10 different values                          codes, as nothing shows an order
    ratio up to .6                                          quantities
    ratio above .6                                          codes
    ======================================================  =====================================

    It errs where quantities are uniform, or codes numbered by frequency: so it is worth a notice,
    and no more.

    Args:
        column: whole numbers, null where missing.

    Source: the ratio is that of Bartels (1982), "The Rank Version of von Neumann's Ratio Test for
    Randomness", https://doi.org/10.1080/01621459.1982.10477764.

    >>> different_codes(pl.Series([1005, 1002, 1010] * 20))
    3
    >>> different_codes(pl.Series([0] * 40 + [1] * 15 + [2] * 5)) is None
    True
    """
    if not column.dtype.is_integer():
        return None
    counted = column.alias("value").drop_nulls().value_counts(name="rows").sort("value")
    different, rows = counted.height, counted["rows"].to_numpy()
    if different < MIN_DIFFERENT or rows.sum() < MIN_ROWS_PER_VALUE * different:
        return None
    if _counts_things(counted["value"], rows):
        return None
    return different if different < _SHORT or _disorder(rows) > _SMOOTH else None


def _counts_things(values: pl.Series, rows: NDArray[np.uint32]) -> bool:
    """Whether the values are 0 or 1, 2, 3 ... and each is rarer than the one before."""
    low, high = int(values[0]), int(values[-1])
    dense = low in (0, 1) and high - low == len(values) - 1
    return dense and bool((np.diff(rows.astype(np.int64)) <= 0).all())


def _disorder(rows: NDArray[np.uint32]) -> float:
    """The ratio of the docstring above; 0 where all are equally frequent."""
    from scipy.stats import rankdata  # here: it takes long to load

    rank = rankdata(rows)
    spread = np.square(rank - rank.mean()).sum()
    return float(np.square(np.diff(rank)).sum() / spread) if spread > 0 else 0.0
