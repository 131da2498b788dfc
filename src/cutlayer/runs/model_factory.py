"""Halves by name: the built-in models, or a class of the user's own."""

import importlib
from collections.abc import Callable

import torch
from torch import nn

from cutlayer.errors import ConfigurationError
from cutlayer.models import OneHotColumns, Top, WideDeepBottom, WideDeepTop, mlp
from cutlayer.parties import InputShape
from cutlayer.runs.configuration import FROZEN, PartyConfiguration

_BUILT_IN = ("mlp", "wide_deep")


def build_bottom(configuration: PartyConfiguration, own: InputShape) -> nn.Module:
    """The non-label party's half; under ``frozen`` the layer that takes its kept components.

    A class of one's own is called with ``columns`` (encoded columns of a record) and ``cut_width``.

    Raises:
        ConfigurationError: the model is unknown, or refuses these sizes.
    """
    generator = _fresh_generator()
    width, hidden = configuration.cut_width, configuration.hidden

    def make() -> nn.Module:
        if configuration.protection == FROZEN:
            return nn.Linear(own.width, width)
        if configuration.model == "mlp":
            return mlp([own.width, *hidden, width], generator)
        if configuration.model == "wide_deep":
            return WideDeepBottom(_columns(own), width, hidden, generator)
        return own_class(configuration)(columns=own.width, cut_width=width)

    return _made(configuration, make)


def build_top(configuration: PartyConfiguration, cut_width: int, own: InputShape) -> nn.Module:
    """The label party's half; it is built twice where the protection has two heads.

    A class of one's own is called with ``cut_width`` and ``own_columns``.

    Raises:
        ConfigurationError: the model is unknown, or refuses these sizes.
    """
    generator, hidden = _fresh_generator(), configuration.hidden

    def make() -> nn.Module:
        if configuration.model == "mlp":
            return Top(cut_width, own.width, hidden, generator)
        if configuration.model == "wide_deep":
            return WideDeepTop(cut_width, _columns(own), hidden, generator)
        return own_class(configuration)(cut_width=cut_width, own_columns=own.width)

    return _made(configuration, make)


def _columns(own: InputShape) -> OneHotColumns:
    """A party's encoded columns, as a Wide & Deep half reads them."""
    return OneHotColumns(own.width, own.categories)


def require_model(configuration: PartyConfiguration) -> None:
    """See that the model is known, before the peer is met.

    Raises:
        ConfigurationError: it is neither built in nor can be imported.
    """
    if configuration.model not in _BUILT_IN:
        own_class(configuration)


def own_class(configuration: PartyConfiguration) -> Callable[..., nn.Module]:
    """Import ``package.module:Class``.

    Raises:
        ConfigurationError: it is neither a built-in model nor such a name, or cannot be imported.
    """
    module_name, colon, name = configuration.model.partition(":")
    if not colon or not name:
        raise ConfigurationError(
            f"{configuration.role.value}: model {configuration.model!r} is unknown. Write one of "
            f"{', '.join(_BUILT_IN)}, or package.module:Class for one of your own."
        )
    try:
        found: Callable[..., nn.Module] = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{configuration.role.value}: model {configuration.model!r} cannot be imported "
            f"({error}). The module must be installed, or lie where the command is started with "
            "PYTHONPATH=."
        ) from error
    return found


def _made(configuration: PartyConfiguration, make: Callable[[], nn.Module]) -> nn.Module:
    """Build the half; sizes that it refuses are a wrong setting."""
    try:
        half = make()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{configuration.role.value}: model {configuration.model!r} cannot be built ({error})."
        ) from error
    if not isinstance(half, nn.Module):
        raise ConfigurationError(
            f"{configuration.role.value}: model {configuration.model!r} gives a "
            f"{type(half).__name__}, not a torch.nn.Module."
        )
    return half


def _fresh_generator() -> torch.Generator:
    """Initial weights that differ at every start; torch keeps 32 bits, so they hide nothing."""
    generator = torch.Generator()
    generator.seed()
    return generator
