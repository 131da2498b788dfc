"""The batch schedule: which records meet in which message, the same at both parties."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cutlayer import check
from cutlayer.data.shared_draws import permutation
from cutlayer.errors import ConfigurationError

_SMALLEST_BATCH = 2
"""Of the records of one message: a record is hidden among the others of its message."""


@dataclass(frozen=True)
class MicroBatch:
    """What crosses in one step: a batch, or one of the parts into which it is cut."""

    step: int
    """Since the start of the training, from 0."""
    epoch: int
    """From 0."""
    positions: Tensor
    """Its rows in the parties' common order, int64 ``(examples,)``."""
    share: float
    """Its rows over those of its batch: the weight of its mean loss in the update; 1 for a batch
    that is not cut."""
    batch: int
    """Which batch it is of, since the start of the training, from 0."""
    completes: bool
    """Whether it is the last of its batch, so that the update is due."""


@dataclass(frozen=True)
class BatchSchedule:
    """Each record once in every epoch, in batches that never fall below ``batch_size``.

    Nothing about the order crosses the network: both parties derive it from these five numbers.
    Epoch ``e`` puts the records into the order drawn from ``(seed, e)`` and cuts it into
    ``max(1, records // batch_size)`` batches whose sizes differ by at most one. A short last batch
    does not exist, because a protection hides a record among those of its message, and a label
    party must be able to state the smallest such crowd, ``batch_size // micro_batches``. A batch
    makes one update of the weights; it crosses in ``micro_batches`` steps, whose sizes differ by at
    most one again.

    Iteration yields the :class:`MicroBatch` of each step. One epoch at a time is held in memory.

    Raises:
        ValueError: a number is not whole, ``batch_size`` is below 2, ``epochs`` or
            ``micro_batches`` below 1, ``seed`` below 0, or a part would have fewer than 2 records.
        ConfigurationError: there are fewer records than ``batch_size``.

    >>> for part in BatchSchedule(records=9, batch_size=4, epochs=1, seed=0, micro_batches=2):
    ...     print(part.step, part.batch, len(part.positions), part.share, part.completes)
    0 0 3 0.6 False
    1 0 2 0.4 True
    2 1 2 0.5 False
    3 1 2 0.5 True
    """

    records: int
    """How many records take part, in all epochs the same ones."""
    batch_size: int
    """The smallest batch that may occur, at least 2."""
    epochs: int
    """How often every record is visited."""
    seed: int
    """Known to both parties, no secret; it fixes the order and nothing else."""
    micro_batches: int = 1
    """Into how many parts each batch is cut."""

    def __post_init__(self) -> None:
        check.at_least("batch_size", self.batch_size, _SMALLEST_BATCH)
        check.at_least("records", self.records, 1)
        check.at_least("epochs", self.epochs, 1)
        check.at_least("seed", self.seed, 0)
        require_room_for_parts(self.batch_size, self.micro_batches)
        if self.records < self.batch_size:
            raise ConfigurationError(
                f"batch_size is {self.batch_size}, but only {self.records} records train. "
                f"Set batch_size to at most {self.records}, or bring more records."
            )

    @property
    def batches_per_epoch(self) -> int:
        """How many updates one epoch has."""
        return max(1, self.records // self.batch_size)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps one epoch has."""
        return self.batches_per_epoch * self.micro_batches

    @property
    def visits_per_record(self) -> int:
        """How many gradient rows of one record are released over the whole training."""
        return self.epochs

    @property
    def largest_batch(self) -> int:
        """The most examples that one batch holds; below twice ``batch_size``."""
        return -(-self.records // self.batches_per_epoch)

    def __len__(self) -> int:
        return self.epochs * self.steps_per_epoch

    def __iter__(self) -> Iterator[MicroBatch]:
        return self.from_step(0)

    def from_step(self, first: int) -> Iterator[MicroBatch]:
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

    def _steps(self, first: int) -> Iterator[MicroBatch]:
        """Walk the epochs that are left; a generator, so that the checks do not wait for it."""
        for epoch in range(first // self.steps_per_epoch, self.epochs):
            begin = epoch * self.batches_per_epoch
            for batch, positions in enumerate(self.epoch_batches(epoch), start=begin):
                for part in self._parts(batch, epoch, positions):
                    if part.step >= first:
                        yield part

    def _parts(self, batch: int, epoch: int, positions: Tensor) -> Iterator[MicroBatch]:
        """Cut one batch."""
        parts = positions.tensor_split(self.micro_batches)
        for index, part in enumerate(parts):
            yield MicroBatch(
                step=batch * self.micro_batches + index,
                epoch=epoch,
                positions=part,
                share=len(part) / len(positions),
                batch=batch,
                completes=index == len(parts) - 1,
            )


def require_room_for_parts(batch_size: int, micro_batches: int) -> None:
    """See that batches of at least ``batch_size`` records can be cut into so many parts.

    Raises:
        ValueError: ``micro_batches`` is below 1, or a part would have fewer than 2 records.
    """
    check.at_least("micro_batches", micro_batches, 1)
    most = batch_size // _SMALLEST_BATCH
    if micro_batches > most:
        raise ValueError(
            f"micro_batches must be at most {most}, since each message needs {_SMALLEST_BATCH} of "
            f"the {batch_size} records of a batch, got {micro_batches}. Lower micro_batches, or "
            f"raise batch_size to {_SMALLEST_BATCH * micro_batches}, at both parties."
        )
