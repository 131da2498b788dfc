"""Values as somebody wrote them, in TOML or on a command line: names and other texts stay texts.

A column may be called ``2020``, and ``-999`` may mean "missing". Where a key takes texts, a number
is the text of its digits; nobody has to put it between quotes.
"""

import tomllib
from datetime import date, time
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ByteSize, ValidationInfo, field_validator

_TEXTS = (tuple[str, ...], tuple[str, ...] | None)
"""Annotations of keys that take a list of texts."""
_NUMBER = (int, float, ByteSize, int | None, float | None)
_TEXT = (str, str | None, Path, Path | None)
"""Annotations of keys that take one."""


class WrittenFloat(float):
    """A float that remembers how it was written: ``1.0`` and ``1.00`` are two texts."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Read it."""
        made = super().__new__(cls, text)
        made.text = text
        return made


class WrittenKeys(BaseModel):
    """Keys that may be read from TOML or from a command line."""

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: object, info: ValidationInfo) -> object:
        """A number is a text where the key takes texts; true is no number, though Python's is 1."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        items = value if isinstance(value, list | tuple) else ()
        if annotation in _TEXT:
            return _text(value)
        if annotation in _TEXTS:
            return [_text(item) for item in items] if items else value
        if annotation in _NUMBER and isinstance(value, bool):
            raise ValueError("Input should be a number")
        if any(isinstance(item, bool) for item in items):
            raise ValueError("Input should be a list of numbers")
        return value


def parse_toml(text: str) -> dict[str, object]:
    """TOML as keys and values, floats as :class:`WrittenFloat`.

    Raises:
        tomllib.TOMLDecodeError: it is none.
    """
    return tomllib.loads(text, parse_float=WrittenFloat)


def typed_value(annotation: object, text: str) -> object:
    """A value from a command line, for a key of this annotation.

    A text is taken as it stands, or without the quotes of TOML. A list may be written as in TOML,
    or as ``a,b``. Anything else is read as TOML where it is that.
    """
    values = _toml_values(text)
    single = values[0] if values is not None and len(values) == 1 else None
    if annotation in _TEXT:
        return single if isinstance(single, str) else text
    if "tuple" not in str(annotation):
        return text if single is None else single
    if isinstance(single, list):
        return single
    parts = [part.strip() or part for part in text.split(",") if part]
    quoted = values is not None and all(isinstance(value, str) for value in values)
    if annotation in _TEXTS and not quoted:
        return parts
    return parts if values is None else values


def _toml_values(text: str) -> list[object] | None:
    """The text as one or several values of TOML; ``None`` where it is none."""
    try:
        found = parse_toml(f"values = [{text}, 0]")  # a comment would swallow the end
    except tomllib.TOMLDecodeError:
        return None
    values = found.get("values")
    return values[:-1] if len(found) == 1 and isinstance(values, list) else None


def _text(value: object) -> object:
    """A number or a day as it was written; anything else is not changed.

    Raises:
        ValueError: true or false, which may be written in several ways.
    """
    if isinstance(value, bool):
        raise ValueError(f'Write texts between quotes, as "{str(value).lower()}"')
    if isinstance(value, WrittenFloat):
        return value.text
    if isinstance(value, int | float):
        return str(value)
    return value.isoformat() if isinstance(value, date | time) else value
