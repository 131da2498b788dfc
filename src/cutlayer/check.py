"""Argument checks: one line at the top of a function, one clear sentence when it fails.

Every check raises ``ValueError`` with the argument's name, the rule and the value found.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, SupportsFloat

if TYPE_CHECKING:
    from torch import Tensor


def matrix(name: str, value: Tensor) -> None:
    """Require a floating-point ``(examples, width)`` tensor with at least one row and column.

    Raises:
        ValueError: ``value`` has another number of dimensions, is empty, or is not floating.
    """
    if value.ndim != 2 or value.shape[0] == 0 or value.shape[1] == 0:
        raise ValueError(
            f"{name} must have shape (examples, width), both at least 1, got {tuple(value.shape)}."
        )
    if not value.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {value.dtype}.")


def shape(name: str, value: Tensor, expected: tuple[int, ...]) -> None:
    """Require exactly this shape.

    Raises:
        ValueError: the shape differs.
    """
    if tuple(value.shape) != expected:
        raise ValueError(f"{name} must have shape {expected}, got {tuple(value.shape)}.")


def finite(name: str, value: Tensor) -> None:
    """Require that no element is NaN or infinite.

    Raises:
        ValueError: some are; the message counts the rows they stand in.
    """
    # The largest is infinite or NaN if any element is; flags for all take 15 times longer.
    if value.numel() == 0 or bool(value.detach().abs().amax() < math.inf):
        return
    rows = (~value.isfinite()).reshape(value.shape[0] if value.ndim else 1, -1).any(dim=1)
    raise ValueError(
        f"{name} must be finite, got NaN or infinity in {int(rows.sum())} of {len(rows)} rows."
    )


def binary_labels(name: str, value: Tensor, *, examples: int) -> None:
    """Require ``examples`` labels, each 0 or 1.

    Raises:
        ValueError: another shape, or a value that is neither 0 nor 1.
    """
    shape(name, value, (examples,))
    if not bool(((value == 0) | (value == 1)).all()):
        raise ValueError(f"{name} must hold only 0 and 1, got {_some_values(value)}.")


def both_classes(name: str, value: Tensor) -> None:
    """Require 0/1 labels with at least one of each.

    Raises:
        ValueError: a value is neither 0 nor 1, or a class is missing.
    """
    binary_labels(name, value, examples=value.numel())
    positives = int((value == 1).sum())
    if positives in (0, value.numel()):
        raise ValueError(
            f"{name} must hold both classes, got {positives} positives of {value.numel()}."
        )


def positive(name: str, value: float) -> None:
    """Require a finite number above 0.

    Raises:
        ValueError: no number, zero, negative, NaN or infinite.
    """
    _number(name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}.")


def not_negative(name: str, value: float) -> None:
    """Require a finite number of at least 0.

    Raises:
        ValueError: no number, negative, NaN or infinite.
    """
    _number(name, value)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")


def between(name: str, value: float, low: float, high: float) -> None:
    """Require a number strictly between ``low`` and ``high``.

    Raises:
        ValueError: no number, outside, on the border, or NaN.
    """
    _number(name, value)
    if not low < value < high:
        raise ValueError(f"{name} must lie strictly between {low} and {high}, got {value!r}.")


def at_least(name: str, value: int, low: int) -> None:
    """Require a whole number of at least ``low``.

    Raises:
        ValueError: not an ``int``, or below ``low``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}.")


def _number(name: str, value: object) -> None:
    """Require something that a float can be made of, and no text that reads as one."""
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        raise ValueError(f"{name} must be a number, got {str(value)[:80]!r}.")
    try:
        float(value)
    except OverflowError as error:
        raise ValueError(f"{name} must be below 1e308, got a larger number.") from error


def _some_values(value: Tensor) -> str:
    """Name up to four of the distinct values, for a message."""
    distinct = value.unique()
    shown = ", ".join(f"{v:g}" for v in distinct[:4].tolist())
    return f"the values {shown}" + (", ..." if len(distinct) > 4 else "")
