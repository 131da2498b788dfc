"""Wide & Deep halves: a linear part beside a deep one, with every path through the cut."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from cutlayer import check
from cutlayer.models.initial_weights import drawn
from cutlayer.models.mlp import mlp

Slots = Sequence[tuple[int, int]]
"""First and last-but-one-past column of each categorical column."""


class _Embedded(nn.Module):
    """Numbers as they are, and each one-hot block of columns as a short learned vector."""

    numbers: Tensor

    def __init__(
        self, width: int, categories: Slots, embedding: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        one_hot = {column for begin, end in categories for column in range(begin, end)}
        numbers = [column for column in range(width) if column not in one_hot]
        self._blocks = list(categories)
        self.register_buffer("numbers", torch.tensor(numbers, dtype=torch.int64), persistent=False)
        # A one-hot row times a matrix is a row of it: an embedding look-up.
        self.tables = nn.ModuleList(
            drawn(nn.Linear(end - begin, embedding, bias=False, device="meta"), generator)
            for begin, end in categories
        )
        self.width = len(numbers) + embedding * len(self._blocks)

    @override
    def forward(self, columns: Tensor) -> Tensor:
        parts = [columns[:, self.numbers]]
        parts += [
            table(columns[:, begin:end])
            for table, (begin, end) in zip(self.tables, self._blocks, strict=True)
        ]
        return torch.cat(parts, dim=1)


class WideDeepBottom(nn.Module):
    """The non-label party's half: a deep part, and its wide logit as the last number of the cut.

    In the original model the wide logit goes to the loss beside the cut, and its gradient is the
    residual in clear. Here it is one coordinate of the cut, so that a protection covers it like
    the others.

    Args:
        width: encoded columns of a record.
        categories: where the one-hot blocks are.
        cut_width: numbers of the activation, at least 2: the deep part's and the wide logit.
        hidden: widths of the deep part's hidden layers.
        embedding: numbers of a category's vector.
        generator: of the initial weights.

    Raises:
        ValueError: ``cut_width`` is below 2.

    Source: `Cheng et al. (2016) <https://arxiv.org/abs/1606.07792>`_.
    """

    def __init__(
        self,
        width: int,
        categories: Slots,
        cut_width: int,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        embedding: int = 4,
    ) -> None:
        super().__init__()
        check.at_least("cut_width of a Wide & Deep half", cut_width, 2)
        self.embedded = _Embedded(width, categories, embedding, generator)
        self.deep = mlp([self.embedded.width, *hidden, cut_width - 1], generator)
        self.wide = drawn(nn.Linear(width, 1, device="meta"), generator)

    @override
    def forward(self, columns: Tensor) -> Tensor:
        """Activation, shape ``(examples, cut_width)``; the last column is the wide logit."""
        return torch.cat([self.deep(self.embedded(columns)), self.wide(columns)], dim=1)


class WideDeepTop(nn.Module):
    """The label party's half: deep part of the cut and of its own columns, plus both wide logits.

    Args:
        cut_width: numbers of the activation; the last one is the non-label party's wide logit.
        own_width: encoded columns of the label party; 0 where it has none.
        own_categories: where its one-hot blocks are.
        hidden: widths of the hidden layers.
        embedding: numbers of a category's vector.
        generator: of the initial weights.
    """

    def __init__(
        self,
        cut_width: int,
        own_width: int,
        own_categories: Slots,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        embedding: int = 4,
    ) -> None:
        super().__init__()
        check.at_least("cut_width of a Wide & Deep half", cut_width, 2)
        self.embedded = _Embedded(own_width, own_categories, embedding, generator)
        self.deep = mlp([cut_width - 1 + self.embedded.width, *hidden, 1], generator)
        self.wide = drawn(nn.Linear(own_width, 1, device="meta"), generator) if own_width else None

    @override
    def forward(self, activation: Tensor, own_features: Tensor) -> Tensor:
        """Logits of the positive class, shape ``(examples,)``."""
        deep = torch.cat([activation[:, :-1], self.embedded(own_features)], dim=1)
        logit = self.deep(deep).squeeze(1) + activation[:, -1]
        return logit if self.wide is None else logit + self.wide(own_features).squeeze(1)
