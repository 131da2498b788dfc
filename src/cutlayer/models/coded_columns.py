"""Columns of prepared data: numbers, then codes, with one look-up for all categories."""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from typing_extensions import override

from cutlayer import check
from cutlayer.models.columns import Columns, Embedding
from cutlayer.models.initial_weights import drawn


class CodedColumns(Columns):
    """Columns of numbers, which come first, and columns of codes, as whole numbers.

    Args:
        numbers: columns of numbers.
        codes: how many codes each column of codes has; the columns follow in this order.

    Raises:
        ValueError: a column has no code.
    """

    def __init__(self, numbers: int, codes: Sequence[int]) -> None:
        for size in codes:
            check.at_least("codes of a column", size, 1)
        self.numbers, self.codes = numbers, tuple(codes)
        self.width = numbers + len(self.codes)

    @override
    def embedding(self, size: int, generator: torch.Generator) -> "CodeEmbedding":
        return CodeEmbedding(self.numbers, self.codes, size, generator)

    @override
    def wide(self, generator: torch.Generator) -> nn.Module:
        return _Wide(self, generator)


class CodeEmbedding(Embedding):
    r"""A row of one table for each code of each column.

    A vocabulary may have millions of codes, of which a batch holds a few thousand: the table's
    gradient is sparse, so a step costs what the batch holds.

    Args:
        numbers: columns of numbers.
        codes: how many codes each column of codes has.
        size: numbers of a code's vector.
        generator: of the initial weights, :math:`U(-1/\sqrt n, 1/\sqrt n)` for n codes.

    Raises:
        ValueError: ``size`` is below 1.
    """

    begins: Tensor

    def __init__(
        self, numbers: int, codes: Sequence[int], size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        check.at_least("embedding", size, 1)
        self._numbers, self._codes = numbers, torch.tensor(list(codes), dtype=torch.int64)
        begins = torch.tensor([0, *accumulate(codes)], dtype=torch.int64)[: len(codes)]
        self.register_buffer("begins", begins, persistent=False)
        # A table of one row for a party without codes: torch has no empty one.
        self.vectors = nn.Embedding(max(1, sum(codes)), size, sparse=True, device="meta")
        self.vectors.to_empty(device="cpu")
        bounds = [1.0 / math.sqrt(count) for count in codes for _ in range(count)] or [1.0]
        scale = torch.tensor(bounds)[:, None]
        with torch.no_grad():
            self.vectors.weight.uniform_(-1.0, 1.0, generator=generator).mul_(scale)
        self.width = numbers + size * len(codes)

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

    def __init__(self, columns: CodedColumns, generator: torch.Generator) -> None:
        super().__init__()
        self.codes = columns.embedding(1, generator)
        self.numbers = drawn(nn.Linear(max(1, columns.numbers), 1, device="meta"), generator)
        self._count = columns.numbers

    @override
    def forward(self, columns: Tensor) -> Tensor:
        weights = self.codes(columns)[:, self._count :].sum(dim=1, keepdim=True)
        if self._count == 0:
            return weights + self.numbers.bias
        return weights + self.numbers(columns[:, : self._count])
