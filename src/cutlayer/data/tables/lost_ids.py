"""Lost ids: what is said of records whose id the other party does not hold."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName
from cutlayer.data.text_sequence import TextSequence

WARN_FROM: Final = 0.05
"""Share of either party's records from which lost ids are a warning."""

COUNTS: Final = (
    "Ids are compared letter for letter: leading zeros, capital letters, spaces within, a fraction "
    "such as .0 and powers of ten (1e+19) count, and an id that was stored as a float may have "
    "lost its last digits"
)
"""Why ids that mean the same record may differ."""

_FRACTION: Final = r"^[+-]?\d+[.,]0+$"
_POWER: Final = r"^[+-]?\d([.,]\d+)?[eE]\+\d+$"  # with its sign: 1e19 may be hexadecimal
_TRAITS: Final = (
    (_FRACTION, "end with a fraction of zeros"),
    (_POWER, "are written in powers of ten"),
    (r"^\d{13,}0{4}$", "are long numbers that end with zeros, as after a way through floats"),
    (r"^['\"]|['\"]$", "stand in quotes"),
    (r"^0\d", "begin with 0"),
    (r"\s", "hold white space"),
    (r"\p{Lu}", "hold capital letters"),
    (r"\p{Ll}", "hold small letters"),
)
_MOST, _FEW = 0.5, 0.1
"""A trait is named if more than this share of the lost ids has it, and less than that of others."""


def lost_ids(
    party: PartyName, own: Sequence[str], shared: Sequence[str], only_there: int
) -> str | None:
    """How many records of both parties have no counterpart, and what may be the cause.

    Args:
        party: who reads this.
        own: ids of all its records.
        shared: those that the peer holds too.
        only_there: how many ids of the peer this party does not hold.

    Returns:
        A notice; a warning where a party loses 5 % of its records or more; ``None`` where both
        hold the same records.
    """
    lost, theirs = len(own) - len(shared), len(shared) + only_there
    if not (lost or only_there):
        return None
    peer = NON_LABEL_PARTY if party == LABEL_PARTY else LABEL_PARTY
    counts = (
        f"{lost:,} of {len(own):,} records of this party ({_percent(lost, len(own))}) have no "
        f"counterpart at the {peer}, and {only_there:,} of its {theirs:,} "
        f"({_percent(only_there, theirs)}) have none here. They are left out."
    )
    shares = (lost / len(own), only_there / theirs)
    if max(shares) < WARN_FROM:
        return f"{party}: {counts}"
    if min(shares) == 0:
        fewer = peer if lost else "this party"
        why = f"The file of {'the ' if lost else ''}{fewer} holds fewer records: is it complete?"
    else:
        trait = _trait_of_lost(TextSequence(own), TextSequence(shared))
        why = f"{'' if trait is None else f'{trait} '}{COUNTS}; compare some ids of both files."
    return f"Warning, {party}: {counts} {why}"


def float_ids(ids: TextSequence) -> str | None:
    """How many ids look as if whole numbers had been stored as floats.

    Args:
        ids: of one party's file.

    Returns:
        A notice; ``None`` where no id does, or where others have a fraction that says something.
    """
    whole, power = (ids.series.str.contains(pattern) for pattern in (_FRACTION, _POWER))
    if ids.series.filter(~whole).str.contains(r"^\d+\.\d+$").any():
        whole = whole & False
    floats = whole | power
    count = int(floats.sum())
    if not count:
        return None
    example = ids.series.filter(floats)[0]
    many = "every id is" if count == len(ids) else f"{count:,} of {len(ids):,} ids are"
    lost = " Long numbers have lost their last digits in that way." if power.any() else ""
    return (
        f"{many} written as a float ({example!r}), as if whole numbers had been stored as "
        f"fractions; ids are compared letter for letter.{lost} Store the column as whole numbers "
        "or texts."
    )


def _trait_of_lost(own: TextSequence, shared: TextSequence) -> str | None:
    """What most of the lost ids have and hardly any shared one."""
    is_lost = pl.Series(shared.rows_of(own) == -1)
    lost, kept = own.series.filter(is_lost), own.series.filter(~is_lost)
    for pattern, words in _TRAITS:
        having = lost.str.contains(pattern)
        if _share(having) > _MOST and _share(kept.str.contains(pattern)) < _FEW:
            example = lost.filter(having)[0]
            return f"Most ids that are lost {words}, as {example!r}, and hardly any other does."
    return None


def _share(flags: pl.Series) -> float:
    """Share of true values; 0 of none."""
    return float(flags.sum()) / max(1, len(flags))


def _percent(some: int, every: int) -> str:
    """A share in percent that shows single records."""
    share = 100 * some / max(1, every)
    return f"{share:.2g} %" if share < 10 else f"{share:.0f} %"
