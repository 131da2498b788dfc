"""Wide & Deep halves: a linear part beside a deep one, with every path through the cut."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from cutlayer import check
from cutlayer.models.columns import Columns
from cutlayer.models.mlp import mlp

EMBEDDING = 4
"""Numbers of a category's vector, as in the paper."""


class WideDeepBottom(nn.Module):
    """The non-label party's half: a deep part, and its wide logit as the last number of the cut.

    In the original model the wide logit goes to the loss beside the cut, and its gradient is the
    residual in clear. Here it is one coordinate of the cut, so that a protection covers it like
    the others.

    Args:
        columns: of the non-label party.
        cut_width: numbers of the activation, at least 2: the deep part's and the wide logit.
        hidden: widths of the deep part's hidden layers.
        generator: of the initial weights.
        embedding: numbers of a category's vector in the deep part.

    Raises:
        ValueError: ``cut_width`` is below 2, or ``embedding`` below 1.

    Source: `Cheng et al. (2016) <https://arxiv.org/abs/1606.07792>`_, with the sizes of
    `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_.
    """

    def __init__(
        self,
        columns: Columns,
        cut_width: int,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        embedding: int = EMBEDDING,
    ) -> None:
        super().__init__()
        check.at_least("cut_width of a Wide & Deep half", cut_width, 2)
        self.embedded = columns.embedding(embedding, generator)
        self.deep = mlp([self.embedded.width, *hidden, cut_width - 1], generator)
        self.wide = columns.wide(generator)

    @override
    def forward(self, columns: Tensor) -> Tensor:
        """Activation, shape ``(examples, cut_width)``; the last column is the wide logit."""
        return torch.cat([self.deep(self.embedded(columns)), self.wide(columns)], dim=1)


class WideDeepTop(nn.Module):
    """The label party's half: deep part of the cut and of its own columns, plus both wide logits.

    Args:
        cut_width: numbers of the activation; the last one is the non-label party's wide logit.
        own: columns of the label party; it may have none.
        hidden: widths of the hidden layers.
        generator: of the initial weights.
        embedding: numbers of a category's vector in the deep part.

    Raises:
        ValueError: ``cut_width`` is below 2, or ``embedding`` below 1.
    """

    def __init__(
        self,
        cut_width: int,
        own: Columns,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        embedding: int = EMBEDDING,
    ) -> None:
        super().__init__()
        check.at_least("cut_width of a Wide & Deep half", cut_width, 2)
        self.embedded = own.embedding(embedding, generator)
        self.deep = mlp([cut_width - 1 + self.embedded.width, *hidden, 1], generator)
        self.wide = own.wide(generator) if own.width else None

    @override
    def forward(self, activation: Tensor, own_features: Tensor) -> Tensor:
        """Logits of the positive class, shape ``(examples,)``."""
        deep = torch.cat([activation[:, :-1], self.embedded(own_features)], dim=1)
        logit = self.deep(deep).squeeze(1) + activation[:, -1]
        return logit if self.wide is None else logit + self.wide(own_features).squeeze(1)
