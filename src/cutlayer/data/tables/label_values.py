"""Label values: which text of the label column is the positive one."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import polars as pl
import torch
from torch import Tensor

from cutlayer.data.tables.file_message import FileMessage, listing

Positive = str | int | float | bool

_UNDERSTOOD: Final = (("1", "0"), ("true", "false"), ("yes", "no"))
_SHOWN: Final = 5


def labels_from(
    column: pl.Series,
    message: FileMessage,
    *,
    positive: Positive | None,
    negative: Literal["rest"] | None,
) -> tuple[Tensor, str]:
    """1 where the label has the positive value.

    Two texts are one value if they are the same number (``1`` and ``1.0``) or the same text.

    Args:
        column: the label column as texts, without nulls.
        message: words the errors.
        positive: the positive value; ``None`` where the values are 1/0, true/false or yes/no in
            any capitals.
        negative: ``"rest"``: every other value is negative, however many there are. ``None``:
            there must be one other value.

    Returns:
        Labels 0 or 1, int64, shape ``(rows,)``, and a sentence that says how they were made.

    Raises:
        DataError: there is one value, or more than two without ``negative="rest"``; ``positive``
            is not among the values; no positive value was named and none is understood.
    """
    counts = column.alias("value").value_counts(name="rows").cast({"value": pl.String})
    texts, made = positive_texts(
        dict(counts.iter_rows()), message, column.name, positive=positive, negative=negative
    )
    is_positive = column.is_in(texts)
    return torch.from_numpy(is_positive.cast(pl.Int64).to_numpy(writable=True)), made


def positive_texts(
    counts: Mapping[str, int],
    message: FileMessage,
    column: str,
    *,
    positive: Positive | None,
    negative: Literal["rest"] | None,
) -> tuple[list[str], str]:
    """All spellings of the positive value, and a sentence that says how labels were made.

    Args:
        counts: how many rows hold each text of the label column.
        message: words the errors.
        column: its name.
        positive: as :func:`labels_from` takes it.
        negative: as :func:`labels_from` takes it.

    Raises:
        DataError: as :func:`labels_from`.
    """
    values = _counted_values(counts)
    found = listing(values, shown=_SHOWN)
    _require_different(values, message, column)
    if len(values) > 2 and negative is None:
        raise message.error(
            f"the label must have two values, but has {len(values):,}: {found}. If one of them is "
            "positive and all others are not, set positive to it and negative='rest'; else name "
            "another label column.",
            column=column,
        )
    wanted = _positive_among(values, positive)
    if wanted is None:
        rule = (
            "must be 1 and 0, true and false, or yes and no where positive is not set"
            if positive is None
            else f"must have the positive value {_value(positive)!r} among its values"
        )
        raise message.error(
            f"the label {rule}, but its values are {found}. Set positive to one of them.",
            column=column,
        )
    _require_one_spelling(values, wanted, message, column)
    others = [value for value in values if value != wanted]
    rest = sum(values[value] for value in others)
    made = (
        f"{wanted!r} is positive ({values[wanted]:,} rows), {_with_counts(values, others)} "
        f"{'is' if len(others) == 1 else 'are'} negative ({rest:,} rows)."
    )
    return sorted(text for text in counts if _value(text) == wanted), made


def understood_texts(
    counts: Mapping[str, int], message: FileMessage, column: str
) -> tuple[dict[str, int], str]:
    """The label, 1 or 0, of each text that needs no explanation, and a sentence on all of them.

    Texts that are neither are left out of the result and named with their counts in the sentence:
    for a reader that sets such rows aside.

    Args:
        counts: how many rows hold each text of the label column.
        message: words the errors.
        column: its name.

    Raises:
        DataError: no text is understood, they are of more than one pair (``1`` and ``yes``), or
            all that are understood have one label.
    """
    values = _counted_values(counts)
    met = [pair for pair in _UNDERSTOOD if any(value.lower() in pair for value in values)]
    known: dict[str, int] = {}
    if len(met) == 1:
        known = {v: 1 - met[0].index(v.lower()) for v in values if v.lower() in met[0]}
    if not known or (len(set(known.values())) == 1 and len(known) < len(values)):
        raise message.error(
            "the label must be 1 and 0, true and false, or yes and no where positive is not set, "
            f"but its values are {_with_counts(values, list(values))}. Set positive to one of "
            "them.",
            column=column,
        )
    _require_different(_joined(values, known), message, column)
    labels = {text: known[_value(text)] for text in sorted(counts) if _value(text) in known}
    told = []
    for label, name in ((1, "positive"), (0, "negative")):
        of_label = [value for value in known if known[value] == label]
        rows = sum(values[value] for value in of_label)
        verb = "is" if len(of_label) == 1 else "are"
        told.append(f"{listing(of_label)} {verb} {name} ({rows:,} rows)")
    made = ", ".join(told) + "."
    others = [value for value in values if value not in known]
    if others:
        made += (
            f" {_with_counts(values, others)} {'is' if len(others) == 1 else 'are'} neither: "
            f"{sum(values[value] for value in others):,} rows are left out. Set positive if they "
            "are to be negative, or write labels alike."
        )
    return labels, made


def label_of(text: str, positive: Positive | None) -> int | None:
    """The label of one text, whatever the others are; ``None`` where it is not understood.

    >>> [label_of(text, None) for text in ("1.0", "No", "maybe")]
    [1, 0, None]
    >>> [label_of(text, 2) for text in ("2.0", "4")]
    [1, 0]
    """
    value = _value(text)
    if positive is not None:
        return int(value == _value(positive))
    pair = next((pair for pair in _UNDERSTOOD if value.lower() in pair), None)
    return None if pair is None else 1 - pair.index(value.lower())


def _joined(values: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Rows of each label by its first spelling: capital letters make no other value."""
    first = {label: value for value, label in reversed(list(known.items()))}
    joined = dict.fromkeys(first.values(), 0)
    for value, label in known.items():
        joined[first[label]] += values[value]
    return joined


def _require_different(values: Mapping[str, int], message: FileMessage, column: str) -> None:
    """Refuse labels of one value."""
    if len(values) == 1:
        raise message.error(
            f"the label must have two values, but all {sum(values.values()):,} rows hold "
            f"{listing(values)}. Name another label column, or bring rows of both kinds.",
            column=column,
        )


def _require_one_spelling(
    values: Mapping[str, int], wanted: str, message: FileMessage, column: str
) -> None:
    """Refuse a negative value that is the positive one but for its capital letters."""
    alike = [v for v in values if v != wanted and v.casefold() == wanted.casefold()]
    if alike:
        raise message.error(
            f"the label's positive value {wanted!r} ({values[wanted]:,} rows) must have one "
            f"spelling, but {_with_counts(values, alike)} differs from it in capital letters alone "
            "and would be negative. Write them alike.",
            column=column,
        )


def _with_counts(values: Mapping[str, int], named: Sequence[str]) -> str:
    """Some values, with their rows where there are several."""
    if len(named) == 1:
        return repr(named[0])
    told = ", ".join(f"{value!r} ({values[value]:,})" for value in named[:_SHOWN])
    more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
    return told + more


def _counted_values(counts: Mapping[str, int]) -> dict[str, int]:
    """The different values, most frequent first, and their rows."""
    values: dict[str, int] = {}
    for text, rows in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        values[_value(text)] = values.get(_value(text), 0) + rows
    return values


def _positive_among(values: Iterable[str], positive: Positive | None) -> str | None:
    """The positive one of these values; ``None`` where there is none or none is understood."""
    if positive is None:
        by_lower = {value.lower(): value for value in values}
        pair = next((pair for pair in _UNDERSTOOD if by_lower.keys() == set(pair)), None)
        return None if pair is None else by_lower[pair[0]]
    wanted = _value(positive)
    if isinstance(positive, bool):
        return next((value for value in values if value.lower() == wanted), None)
    return wanted if wanted in values else None


def _value(value: Positive) -> str:
    """One spelling for each value: ``1``, ``1.0`` and `` 1`` are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).strip()
    try:
        number = float(text.replace("_", "?"))  # Python alone reads 1_0 as a number
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
