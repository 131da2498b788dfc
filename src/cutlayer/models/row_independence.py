"""Refuse layers in which one record's output depends on the other records of its batch."""

from torch import nn

from cutlayer.errors import ConfigurationError


def require_row_independence(half: nn.Module, owner: str) -> None:
    """Refuse a half in which a row's gradient depends on other rows' labels.

    Such a layer lets one label move every row of the message, so that no bound on a single row
    holds (with BatchNorm in the top, one label was seen to move other rows by 1.6 times what the
    bound assumes).

    Args:
        half: bottom or top.
        owner: the party, for the message.

    Raises:
        ConfigurationError: it holds a BatchNorm or a layer of its family.
    """
    for name, layer in half.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise ConfigurationError(
                f"{owner}: layer {name!r} is a {type(layer).__name__}, which couples the records "
                "of a batch, so that no bound on one record's gradient holds. Use LayerNorm or "
                "GroupNorm instead."
            )
