"""Option groups: options that several commands have in common, written once as a dataclass."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class OptionGroup:
    """Base of a group: each field is an option, with annotation and default as typer reads them."""


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command that shows typer the options of its groups one by one.

    Where a parameter is annotated with an :class:`OptionGroup`, the fields of that group stand in
    its place, in their order; the command gets the group that is made of what was typed.

    Args:
        command: takes all of its arguments and options by keyword.

    Raises:
        ValueError: a group has an option that the command or another of its groups has as well.
    """
    groups: dict[str, type[OptionGroup]] = {}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, OptionGroup):
            groups[name] = parameter.annotation
            shown += inspect.signature(parameter.annotation).parameters.values()
        else:
            shown.append(parameter)
    # By keyword, since an option with a default may then stand before an argument without one.
    signature = inspect.Signature(
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in shown]
    )

    @wraps(command)
    def spread_out(**typed: Any) -> None:
        made = {
            name: group(
                **{option: typed.pop(option) for option in inspect.signature(group).parameters}
            )
            for name, group in groups.items()
        }
        command(**typed, **made)

    spread_out.__signature__ = signature  # type: ignore[attr-defined]
    spread_out.__annotations__ = {one.name: one.annotation for one in shown}
    return spread_out
