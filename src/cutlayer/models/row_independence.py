"""Refuse halves in which one record's output depends on the other records of its batch."""

import copy

import torch
from torch import Tensor, nn

from cutlayer.errors import ConfigurationError

_MOST_ROWS = 8
_SCALES = (0.1, 1.0, 10.0)
_REMEDY = (
    "couples the records of a batch, so that no bound on one record's gradient holds. Use layers "
    "that treat each row by itself, as LayerNorm and GroupNorm do."
)


def require_row_independence(half: nn.Module, owner: str) -> None:
    """Refuse a half in which a row's gradient depends on other rows' labels, by its layers' names.

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
                f"{owner}: layer {name!r} is a {type(layer).__name__}, which {_REMEDY}"
            )


def require_uncoupled_top(top: nn.Module, cut_width: int, own_features: Tensor, owner: str) -> None:
    r"""Refuse a top in which the gradient of one row's activation is made from other rows' labels.

    Row i of a message is :math:`\sum_k r_k\, \partial o_k / \partial a_i` with residuals r, logits
    o and activations a, so other labels stay out of it exactly if
    :math:`\partial o_k / \partial a_i = 0` for all :math:`k \ne i`. That is measured, on random
    activations of three sizes and the first own records: the logits of every other row are led
    back, and what reaches the rows between must be zero to the last bit. A path that opens only
    for rarer inputs is not found.

    Args:
        top: maps ``(examples, cut_width)`` and own features to logits ``(examples,)``; not changed.
        cut_width: of the activation.
        own_features: of some records of the label party, ``(records, ...)``.
        owner: the party, for the message.

    Raises:
        ConfigurationError: rows are coupled, by whatever layer.
    """
    require_row_independence(top, owner)
    rows = min(_MOST_ROWS, len(own_features))
    if rows < 2:
        return
    own = own_features[:rows]
    probed = copy.deepcopy(top).train()
    generator = torch.Generator().manual_seed(0)
    for scale in _SCALES:
        draw = scale * torch.randn(rows, cut_width, generator=generator)
        for begin in (0, 1):
            activation = draw.clone().requires_grad_()
            with torch.random.fork_rng(devices=[]):  # dropout draws, and nobody must notice
                logit = probed(activation, own)
            if logit.shape[:1] != (rows,) or not logit.requires_grad:
                return  # another rule, with an error of its own
            led_back = torch.autograd.grad(logit[begin::2].sum(), activation, allow_unused=True)[0]
            between = slice(1 - begin, None, 2)
            if led_back is not None and bool((led_back[between].nan_to_num() != 0).any()):
                raise ConfigurationError(
                    f"{owner}: the top {type(top).__name__} {_REMEDY} (The logits of some rows led "
                    "a gradient back to the activations of others.)"
                )
