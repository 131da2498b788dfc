"""Text patterns: what texts that are no plain numbers look like: other numbers, dates."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from cutlayer.data.tables.cell_values import Decimal

_MOSTLY: Final = 0.9
"""Share of the different texts that must look alike."""
_LOOKED_AT: Final = 1_000
"""So many different texts of a column are looked at, evenly spread."""

_SPACES: Final = " \u00a0\u2007\u2009\u202f"
_MINUS: Final = "\u2212\u2010\u2012\u2013\ufe63\uff0d"
_CURRENCIES: Final = (
    r"(?:[$€£¥₹₽₩₺₪฿]|R\$|US\$|kr\.?|zł|Kč|Ft|USD|EUR|GBP|CHF|JPY|CNY|INR|BRL|CAD|AUD|NZD|SEK|NOK|"
    r"DKK|PLN|CZK|HUF|TRY|MXN|ZAR|KRW|SGD|HKD)"
)
_NUMBER: Final = re.compile(
    rf"""(?P<open>\()?\s*
    (?P<sign>[-+{_MINUS}])?\s*
    (?P<before>{_CURRENCIES})?\s*
    (?P<late>[-+{_MINUS}])?
    (?P<core>[0-9][0-9.,'’_{_SPACES}]*|[.,][0-9]+)
    (?P<power>[eE][-+]?[0-9]+)?\s*
    (?P<percent>[%‰])?\s*
    (?P<after>{_CURRENCIES})?
    (?P<behind>[-{_MINUS}])?\s*
    (?P<close>\))?
    (?P<unit>[A-Za-zµμ°Ω]{{1,5}}(?:/[A-Za-z]{{1,4}})?[²³23]?)?""",
    re.VERBOSE,
)
_PLAIN: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_DECIMAL_COMMA: Final = re.compile(r"[0-9]+,[0-9]*|,[0-9]+")
_ONE_GROUP: Final = re.compile(r"[1-9][0-9]{0,2},[0-9]{3}")
_GROUPED: Final = re.compile(
    rf"[1-9][0-9]{{0,2}}(?P<part>[.,'’_{_SPACES}])[0-9]{{2,3}}(?:(?P=part)[0-9]{{2,3}})*"
    r"(?<=[.,'’_\s][0-9]{3})(?P<fraction>[.,][0-9]+)?"
)
_SEPARATORS: Final = {
    ",": "a comma as thousands separator",
    ".": "a point as thousands separator",
    "'": "an apostrophe as thousands separator",
    "’": "an apostrophe as thousands separator",
    "_": "an underscore as thousands separator",
    **dict.fromkeys(_SPACES, "a space as thousands separator"),
}
_COMMA: Final = "a decimal comma"
_POINT: Final = "a decimal point"

_MONTHS: Final = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mai|okt|dez|mär"
_CLOCK: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp]\.?[Mm]\.?)?"
_DATE: Final = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})|\d{4}-\d{2}|"
    rf"\d{{1,2}}\.?[-\s](?:{_MONTHS})[a-zä]*\.?,?[-\s]\d{{2,4}}|"
    rf"(?:{_MONTHS})[a-z]*\.?\s\d{{1,2}},?\s\d{{4}})"
)
_MOMENT: Final = re.compile(rf"(?P<date>{_DATE})(?P<rest>[T\s].*)?|(?P<time>{_CLOCK})", re.I)


@dataclass(frozen=True)
class Look:
    """What the texts of a column look like."""

    what: str
    """In the plural, such as ``numbers with a decimal comma``."""
    example: str
    """One of the texts."""
    fix: str
    """A sentence: which key to set, or what to change in the file."""
    is_moment: bool = False
    """Whether they are dates or times, which no option makes sense of."""

    @property
    def sentences(self) -> str:
        """What they look like, and what to do, to follow the column's name."""
        return f"its values look like {self.what}, such as {self.example!r}. {self.fix}"


def look_of(column: pl.Series, decimal: Decimal) -> Look | None:
    """What the texts of a column look like; ``None`` where they are plain numbers or mere texts.

    Nine tenths of the different texts must look alike; plain numbers count as numbers of any kind.

    Args:
        column: texts or categories, null where missing.
        decimal: what the file was said to write before a fraction.

    >>> look_of(pl.Series(["1,5", "12,25", "3"]), ".").sentences
    "its values look like numbers with a decimal comma, such as '1,5'. Set decimal to ','."
    >>> look_of(pl.Series(["2024-01-31", "2024-02-01"]), ".").what
    'dates'
    """
    # A plain name: polars takes one such as "^n$" for a pattern.
    different = column.alias("cells").drop_nulls().unique(maintain_order=True)
    step = -(-len(different) // _LOOKED_AT) or 1
    texts = [text.strip() for text in different.gather_every(step).cast(pl.String).to_list()]
    if not texts:
        return None
    return _moments(texts) or _numbers(texts, decimal)


def _enough(some: int, every: int) -> bool:
    """Whether so many look alike that the others are odd cells, such as one text for missing."""
    return some >= _MOSTLY * every or (some > 1 and every - some == 1)


def _moments(texts: Sequence[str]) -> Look | None:
    """Dates, times, or dates with a time."""
    found = [(text, match) for text in texts if (match := _MOMENT.fullmatch(text))]
    if not found or not _enough(len(found), len(texts)):
        return None
    timed = sum(1 for _, match in found if match["rest"])
    times = sum(1 for _, match in found if match["time"])
    what = "times" if times == len(found) else "dates and times" if timed or times else "dates"
    unit = "seconds since midnight" if what == "times" else "days since a fixed date"
    return Look(
        what,
        found[0][0],
        f"Such texts are categories without an order: write them as numbers ({unit}, say), or list "
        "the column under drop.",
        is_moment=True,
    )


def _numbers(texts: Sequence[str], decimal: Decimal) -> Look | None:
    """Numbers that are not written as plain ones."""
    traits: dict[str, str] = {}
    plain: list[str] = []
    either: list[str] = []
    units: Counter[str] = Counter()
    numbers = 0
    for text in texts:
        ascii_text = _with_ascii_digits(text)
        match = _NUMBER.fullmatch(ascii_text)
        found = None if match is None else _traits(match)
        if match is None or found is None:
            continue
        if ascii_text != text:
            found.append("digits of another script")
        numbers += 1
        units[match["unit"] or ""] += 1
        if _ONE_GROUP.fullmatch(match["core"]):
            either.append(text)
        if not found:
            plain.append(text)
        for trait in found:
            traits.setdefault(trait, text)
    if either:  # 1,000 alone is a thousand, and beside 1,5 it is one
        traits.setdefault(_COMMA if _COMMA in traits else _SEPARATORS[","], either[0])
    points = any("." in text for text in plain)
    if decimal == "," and points:
        traits.setdefault(_POINT, next(text for text in plain if "." in text))
    if decimal == ",":
        traits.pop(_COMMA, None)
    unit, times = units.most_common(1)[0] if units else ("", 0)
    if unit:
        traits.setdefault(f"the unit {unit!r}", next(text for text in texts if text.endswith(unit)))
    # Codes such as 12A and 7C end in different letters.
    if not traits or not _enough(times, len(texts)) or not _enough(numbers, len(texts)):
        return None
    what = f"numbers with {_joined(list(traits))}"
    return Look(what, next(iter(traits.values())), _fix(set(traits), decimal, points=points))


def _with_ascii_digits(text: str) -> str:
    """The text with every decimal digit of another script as 0 to 9."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)


def _traits(match: re.Match[str]) -> list[str] | None:
    """How a number is written other than plainly; ``None`` where it is none."""
    core = match["core"].rstrip(_SPACES)
    if bool(match["open"]) != bool(match["close"]):
        return None
    if match["sign"] and (match["late"] or match["behind"] or match["open"]):
        return None
    found = []
    grouped = _GROUPED.fullmatch(core)
    if _ONE_GROUP.fullmatch(core) or _PLAIN.fullmatch(core):
        pass
    elif _DECIMAL_COMMA.fullmatch(core):
        found.append(_COMMA)
    elif grouped and grouped["fraction"] != grouped["part"]:
        found.append(_SEPARATORS[grouped["part"]])
        if (grouped["fraction"] or "").startswith(","):
            found.append(_COMMA)
    else:
        return None
    if match["percent"]:
        found.append("a percent sign" if match["percent"] == "%" else "a per mille sign")
    if match["before"] or match["after"]:
        found.append("a currency sign")
    if match["open"]:
        found.append("parentheses in place of a minus")
    if any(sign and sign in _MINUS for sign in (match["sign"], match["late"], match["behind"])):
        found.append("a minus other than the sign '-'")
    elif match["behind"]:
        found.append("the minus behind them")
    return found


def _fix(traits: set[str], decimal: Decimal, *, points: bool) -> str:
    """Which key to set, and what to change in the file."""
    if traits == {_POINT}:
        return "Set decimal to '.', or write all numbers with a comma."
    if _COMMA in traits and points:
        return "Write all of them with a decimal point, or all with a comma and set decimal to ','."
    if traits == {_COMMA}:
        return "Set decimal to ','."
    if _COMMA in traits:
        return "Take the other signs out of the file, and set decimal to ','."
    example = "1234,5" if decimal == "," else "1234.5"
    either = ""
    if traits == {_SEPARATORS[","]}:
        either = " If the comma stands before a fraction, set decimal to ',' instead."
    return (
        f"Write them as plain numbers ({example}), or list the column under categorical if they "
        f"are names.{either}"
    )


def _joined(words: Sequence[str]) -> str:
    """Words as in a sentence."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
