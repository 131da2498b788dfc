"""Wide & Deep halves for prepared data: numbers and codes in, one look-up for all categories."""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from typing_extensions import override

from cutlayer import check
from cutlayer.models.initial_weights import drawn
from cutlayer.models.mlp import mlp


class CodedColumns(nn.Module):
    r"""Numbers as they are, and each column of codes as a short learned vector.

    A vocabulary may have millions of codes, of which a batch holds a few thousand: the tables'
    gradients are sparse, so a step costs what the batch holds.

    Args:
        numbers: columns of numbers, which come first.
        codes: how many codes each column of codes has; the columns follow in this order.
        embedding: numbers of a code's vector.
        generator: of the initial weights, :math:`U(-1/\sqrt n, 1/\sqrt n)` for n codes.

    Raises:
        ValueError: a column has no code, or ``embedding`` is below 1.
    """

    begins: Tensor

    def __init__(
        self, numbers: int, codes: Sequence[int], embedding: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        for size in codes:
            check.at_least("codes of a column", size, 1)
        check.at_least("embedding", embedding, 1)
        self._numbers, self._codes = numbers, torch.tensor(list(codes), dtype=torch.int64)
        begins = torch.tensor([0, *accumulate(codes)], dtype=torch.int64)[: len(codes)]
        self.register_buffer("begins", begins, persistent=False)
        # A table of one row for a party without codes: torch has no empty one.
        self.vectors = nn.Embedding(max(1, sum(codes)), embedding, sparse=True, device="meta")
        self.vectors.to_empty(device="cpu")
        bounds = [1.0 / math.sqrt(size) for size in codes for _ in range(size)] or [1.0]
        scale = torch.tensor(bounds)[:, None]
        with torch.no_grad():
            self.vectors.weight.uniform_(-1.0, 1.0, generator=generator).mul_(scale)
        self.width = numbers + embedding * len(codes)

    @override
    def forward(self, columns: Tensor) -> Tensor:
        """Numbers, then each code's vector, shape ``(examples, width)``.

        Args:
            columns: numbers, then codes as whole numbers, shape ``(examples, columns)``.

        Raises:
            ValueError: a code is not below its column's count.
        """
        numbers, codes = columns[:, : self._numbers], columns[:, self._numbers :].long()
        if codes.shape[1] == 0:
            return numbers
        if bool(((codes < 0) | (codes >= self._codes.to(codes.device))).any()):
            raise ValueError("codes must lie below the number of codes of their column.")
        return torch.cat([numbers, self.vectors(codes + self.begins).flatten(1)], dim=1)


class _Wide(nn.Module):
    """A weight for each number and each code, summed to one logit."""

    def __init__(self, numbers: int, codes: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.codes = CodedColumns(numbers, codes, 1, generator)
        self.numbers = drawn(nn.Linear(max(1, numbers), 1, device="meta"), generator)
        self._count = numbers

    @override
    def forward(self, columns: Tensor) -> Tensor:
        weights = self.codes(columns)[:, self._count :].sum(dim=1, keepdim=True)
        if self._count == 0:
            return weights + self.numbers.bias
        return weights + self.numbers(columns[:, : self._count])


class CodedWideDeepBottom(nn.Module):
    """The non-label party's half; the wide logit is the last number of the cut, and protected.

    Args:
        numbers: columns of numbers.
        codes: how many codes each column of codes has.
        cut_width: numbers of the activation, at least 2: the deep part's and the wide logit.
        hidden: widths of the deep part's hidden layers.
        generator: of the initial weights.
        embedding: numbers of a code's vector in the deep part; of the wide part it is 1.

    Raises:
        ValueError: ``cut_width`` is below 2.

    Source: `Cheng et al. (2016) <https://arxiv.org/abs/1606.07792>`_, with the sizes of
    `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_.
    """

    def __init__(
        self,
        numbers: int,
        codes: Sequence[int],
        cut_width: int,
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        embedding: int = 4,
    ) -> None:
        super().__init__()
        check.at_least("cut_width of a Wide & Deep half", cut_width, 2)
        self.embedded = CodedColumns(numbers, codes, embedding, generator)
        self.deep = mlp([self.embedded.width, *hidden, cut_width - 1], generator)
        self.wide = _Wide(numbers, codes, generator)

    @override
    def forward(self, columns: Tensor) -> Tensor:
        """Activation, shape ``(examples, cut_width)``; the last column is the wide logit."""
        return torch.cat([self.deep(self.embedded(columns)), self.wide(columns)], dim=1)


class CodedWideDeepTop(nn.Module):
    """The label party's half: deep part of the cut and of its own columns, plus both wide logits.

    Args:
        cut_width: numbers of the activation; the last one is the non-label party's wide logit.
        numbers: own columns of numbers.
        codes: how many codes each own column of codes has.
        hidden: widths of the hidden layers.
        generator: of the initial weights.
        embedding: numbers of a code's vector.
    """

    def __init__(
        self,
        cut_width: int,
        numbers: int,
        codes: Sequence[int],
        hidden: Sequence[int],
        generator: torch.Generator,
        *,
        embedding: int = 4,
    ) -> None:
        super().__init__()
        check.at_least("cut_width of a Wide & Deep half", cut_width, 2)
        self.embedded = CodedColumns(numbers, codes, embedding, generator)
        self.deep = mlp([cut_width - 1 + self.embedded.width, *hidden, 1], generator)
        self.wide = _Wide(numbers, codes, generator) if numbers or codes else None

    @override
    def forward(self, activation: Tensor, own_features: Tensor) -> Tensor:
        """Logits of the positive class, shape ``(examples,)``."""
        deep = torch.cat([activation[:, :-1], self.embedded(own_features)], dim=1)
        logit = self.deep(deep).squeeze(1) + activation[:, -1]
        return logit if self.wide is None else logit + self.wide(own_features).squeeze(1)
