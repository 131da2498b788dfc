"""The batch schedule: which records meet in which step, the same at both parties."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cutlayer import check
from cutlayer.data.shared_draws import permutation
from cutlayer.errors import ConfigurationError

_SMALLEST_BATCH = 2


@dataclass(frozen=True)
class BatchSchedule:
    """Each record once in every epoch, in batches that never fall below ``batch_size``.

    Nothing about the order crosses the network: both parties derive it from these four numbers.
    Epoch ``e`` puts the records into the order drawn from ``(seed, e)`` and cuts it into
    ``max(1, records // batch_size)`` batches whose sizes differ by at most one. A short last batch
    does not exist, because a protection hides a record among those of its batch, and a label
    party must be able to state the smallest such crowd.

    Iteration yields ``(step, epoch, positions)``: the step since the start of the training from 0,
    the epoch from 0, and the rows of the batch in the parties' common order, int64
    ``(examples,)``. One epoch at a time is held in memory.

    Raises:
        ValueError: a number is not whole, ``batch_size`` is below 2, ``epochs`` below 1, or
            ``seed`` below 0.
        ConfigurationError: there are fewer records than ``batch_size``.

    >>> for step, epoch, positions in BatchSchedule(records=5, batch_size=2, epochs=1, seed=0):
    ...     print(step, epoch, len(positions))
    0 0 3
    1 0 2
    """

    records: int
    """How many records take part, in all epochs the same ones."""
    batch_size: int
    """The smallest batch that may occur, at least 2."""
    epochs: int
    """How often every record is visited."""
    seed: int
    """Known to both parties, no secret; it fixes the order and nothing else."""

    def __post_init__(self) -> None:
        check.at_least("batch_size", self.batch_size, _SMALLEST_BATCH)
        check.at_least("records", self.records, 1)
        check.at_least("epochs", self.epochs, 1)
        check.at_least("seed", self.seed, 0)
        if self.records < self.batch_size:
            raise ConfigurationError(
                f"batch_size is {self.batch_size}, but only {self.records} records train. "
                f"Set batch_size to at most {self.records}, or bring more records."
            )

    @property
    def batches_per_epoch(self) -> int:
        """How many steps one epoch has."""
        return max(1, self.records // self.batch_size)

    @property
    def visits_per_record(self) -> int:
        """How many gradient rows of one record are released over the whole training."""
        return self.epochs

    @property
    def largest_batch(self) -> int:
        """The most examples that one step holds; below twice ``batch_size``."""
        return -(-self.records // self.batches_per_epoch)

    def __len__(self) -> int:
        return self.epochs * self.batches_per_epoch

    def __iter__(self) -> Iterator[tuple[int, int, Tensor]]:
        return self.from_step(0)

    def from_step(self, first: int) -> Iterator[tuple[int, int, Tensor]]:
        """The rest of the schedule from step ``first`` on, for a training that is taken up again.

        Raises:
            ValueError: ``first`` is not a whole number of at least 0.
        """
        check.at_least("first", first, 0)
        return self._steps(first)

    def epoch_batches(self, epoch: int) -> list[Tensor]:
        """All batches of one epoch: int64 positions, each record in exactly one of them.

        Raises:
            ValueError: ``epoch`` is not a whole number in ``0 .. epochs - 1``.
        """
        check.at_least("epoch", epoch, 0)
        if epoch >= self.epochs:
            raise ValueError(f"epoch must be below {self.epochs}, got {epoch}.")
        order = permutation(self.records, self.seed, epoch)
        return [torch.from_numpy(part) for part in np.array_split(order, self.batches_per_epoch)]

    def _steps(self, first: int) -> Iterator[tuple[int, int, Tensor]]:
        """Walk the epochs that are left; a generator, so that the checks do not wait for it."""
        for epoch in range(first // self.batches_per_epoch, self.epochs):
            begin = epoch * self.batches_per_epoch
            for step, positions in enumerate(self.epoch_batches(epoch), start=begin):
                if step >= first:
                    yield step, epoch, positions
