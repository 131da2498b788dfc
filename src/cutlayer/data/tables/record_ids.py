"""Record ids: the one way of writing an id, so that both parties match the same records."""

from collections.abc import Iterable
from typing import Final

import polars as pl

from cutlayer.data.text_sequence import TextSequence

_AT_ONCE: Final = 1 << 20


def canonical_ids(ids: "Iterable[str] | pl.Series") -> TextSequence:
    r"""The ids as every form of alignment compares them.

    An id is brought into Unicode normal form C, so that an accented letter equals the same letter
    followed by its accent, and white space at its ends is taken off. Nothing else is touched:
    capital letters, leading zeros, white space within and full-width digits count. A party table
    keeps its ids so, whatever file they came from; a second pass changes nothing.

    Args:
        ids: texts, or a text Series of polars without nulls.

    Returns:
        As many texts in the same order; the given ones, not copied, where all are canonical.

    Source: `Unicode Standard Annex 15 <https://unicode.org/reports/tr15/>`_ for the normal form.

    >>> canonical_ids(["007", " E\u0301lan\t"])
    TextSequence(['007', 'Élan'])
    """
    given = TextSequence(ids)
    parts = (given.series[at : at + _AT_ONCE] for at in range(0, len(given), _AT_ONCE))
    if all((_canonical(part) == part).all() for part in parts):
        return given
    return TextSequence(_canonical(given.series))


def _canonical(texts: pl.Series) -> pl.Series:
    """Normal form C, then without white space at the ends."""
    if texts.str.len_bytes().sum() != texts.str.len_chars().sum():  # ASCII is in the form already
        texts = texts.str.normalize("NFC")
    return texts.str.strip_chars()
