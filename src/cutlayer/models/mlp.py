"""Multilayer perceptrons as bottom and top halves, with initial weights from a given generator."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from typing_extensions import override

from cutlayer import check
from cutlayer.models.initial_weights import drawn


def mlp(sizes: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    r"""Linear layers with ReLU between them; the last one stays linear.

    Weights and biases are drawn from :math:`U(-1/\sqrt n, 1/\sqrt n)` for n inputs, as torch's
    ``nn.Linear`` does, but from ``generator`` instead of the global one.

    Args:
        sizes: width of the input, of each hidden layer, of the output; at least two numbers.
        generator: the only source of the initial weights.

    Raises:
        ValueError: fewer than two sizes, or a size below 1.
    """
    check.at_least("the number of sizes", len(sizes), 2)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        check.at_least("a layer's width", inputs, 1)
        check.at_least("a layer's width", outputs, 1)
        layers += [drawn(nn.Linear(inputs, outputs, device="meta"), generator), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Top(nn.Module):
    """The label party's half: activation and own features in, one logit a record out."""

    def __init__(
        self, cut_width: int, own_width: int, hidden: Sequence[int], generator: torch.Generator
    ) -> None:
        super().__init__()
        self.layers = mlp([cut_width + own_width, *hidden, 1], generator)

    @override
    def forward(self, activation: Tensor, own_features: Tensor) -> Tensor:
        """Logits of the positive class, shape ``(examples,)``.

        Args:
            activation: from the non-label party, ``(examples, cut_width)``.
            own_features: of the label party, ``(examples, own_width)``; width 0 where it has none.
        """
        return self.layers(torch.cat([activation, own_features], dim=1)).squeeze(1)
