"""Encoded columns as a Wide & Deep half sees them: numbers, and categories as one-hot blocks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from cutlayer.models.initial_weights import drawn

Slots = Sequence[tuple[int, int]]
"""First and last-but-one-past column of each categorical column."""


class Embedding(nn.Module):
    """Numbers as they are, and each category as a short learned vector."""

    width: int
    """Numbers of a record that come out."""


class Columns(ABC):
    """The columns of one party."""

    width: int
    """How many there are."""

    @abstractmethod
    def embedding(self, size: int, generator: torch.Generator) -> Embedding:
        """The deep part's view.

        Args:
            size: numbers of a category's vector, at least 1.
            generator: of the initial weights.
        """

    @abstractmethod
    def wide(self, generator: torch.Generator) -> nn.Module:
        """The wide part: a weight for each number and each category, summed to one logit.

        Its output has shape ``(examples, 1)``.
        """


class OneHotColumns(Columns):
    """Numbers and one-hot blocks side by side.

    Args:
        width: encoded columns of a record.
        categories: where the one-hot blocks are.
    """

    def __init__(self, width: int, categories: Slots = ()) -> None:
        self.width, self.categories = width, tuple(categories)

    @override
    def embedding(self, size: int, generator: torch.Generator) -> Embedding:
        return _OneHotEmbedding(self.width, self.categories, size, generator)

    @override
    def wide(self, generator: torch.Generator) -> nn.Module:
        return drawn(nn.Linear(self.width, 1, device="meta"), generator)


class _OneHotEmbedding(Embedding):
    """A one-hot row times a matrix is a row of it: an embedding look-up."""

    numbers: Tensor

    def __init__(
        self, width: int, categories: Slots, size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        one_hot = {column for begin, end in categories for column in range(begin, end)}
        numbers = [column for column in range(width) if column not in one_hot]
        self._blocks = list(categories)
        self.register_buffer("numbers", torch.tensor(numbers, dtype=torch.int64), persistent=False)
        self.tables = nn.ModuleList(
            drawn(nn.Linear(end - begin, size, bias=False, device="meta"), generator)
            for begin, end in categories
        )
        self.width = len(numbers) + size * len(self._blocks)

    @override
    def forward(self, columns: Tensor) -> Tensor:
        parts = [columns[:, self.numbers]]
        parts += [
            table(columns[:, begin:end])
            for table, (begin, end) in zip(self.tables, self._blocks, strict=True)
        ]
        return torch.cat(parts, dim=1)
