"""Protections as text, as the command line and configuration files write them."""

import difflib
from collections.abc import Collection, Sequence
from dataclasses import fields

from cutlayer.errors import ConfigurationError
from cutlayer.protections.base import Protection
from cutlayer.registry import Registry


def parse_protection(
    text: str, table: Registry[type[Protection]], *, planned_releases: int | None = None
) -> Protection:
    """Make a protection from ``name`` or ``name:setting=value,setting=value``.

    Args:
        text: for example ``marvell:s=4,statistics=batch``.
        table: of the known protections.
        planned_releases: how often each record will be sent. Completes a goal for the whole
            training, as in ``residual:max_leak_auc=0.7``, that does not state it itself.

    Raises:
        UnknownNameError: no protection of this name.
        ConfigurationError: a setting is unknown, given twice, or has a value that breaks a rule.
    """
    name, _, rest = text.partition(":")
    kind = table[name.strip()]
    known = [f.name for f in fields(kind) if f.init]  # type: ignore[arg-type]
    settings: dict[str, str | float | int] = {}
    for part in filter(None, (p.strip() for p in rest.split(","))):
        setting, equals, value = (p.strip() for p in part.partition("="))
        if setting in kind.removed_settings:
            settings[setting] = value
            continue  # its own error says why
        if problem := _problem(setting, equals and value, known, settings):
            raise ConfigurationError(
                f"protection {text!r}: {problem} Settings of {name}: {', '.join(known) or 'none'}."
            )
        settings[setting] = _number_or_word(value)
    if "releases" in known and "max_leak_auc" in settings and planned_releases is not None:
        settings.setdefault("releases", planned_releases)
    try:
        return kind(**settings)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ConfigurationError(f"protection {text!r}: {error}") from error


def _problem(setting: str, value: str, known: Sequence[str], given: Collection[str]) -> str:
    """What is wrong with a setting, in a sentence or two; empty where nothing is."""
    if "[" in setting + value:
        return "a list of values is for the grid of `cutlayer tradeoff`; give one."
    if setting not in known:
        near = difflib.get_close_matches(setting, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"there is no setting {setting!r}.{hint}"
    if not value:
        return f"{setting} has no value; write {setting}=VALUE."
    return f"{setting} is given twice." if setting in given else ""


def _number_or_word(value: str) -> str | float | int:
    """An int where it reads as one, else a float, else the word itself."""
    if not value.isascii() or "_" in value:
        return value  # Python would read 1_000, and digits of any script
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    return value
