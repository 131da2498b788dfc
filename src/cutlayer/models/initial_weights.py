"""Initial weights from a given generator, never from the global one."""

import math
from typing import TypeVar

import torch
from torch import nn

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def drawn(layer: Layer, generator: torch.Generator) -> Layer:
    r"""Give a layer that was made on the meta device its memory and its initial weights.

    Weights and bias come from :math:`U(-1/\sqrt n, 1/\sqrt n)` for n inputs of an output, as
    torch draws them by default.

    Args:
        layer: made with ``device="meta"``, which draws nothing.
        generator: the only source of the weights.
    """
    filled = layer.to_empty(device="cpu")
    bound = 1.0 / math.sqrt(filled.weight[0].numel())
    with torch.no_grad():
        filled.weight.uniform_(-bound, bound, generator=generator)
        if filled.bias is not None:
            filled.bias.uniform_(-bound, bound, generator=generator)
    return filled
