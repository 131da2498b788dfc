"""A release: one batch of gradient rows as the non-label party saw them."""

from dataclasses import dataclass

from torch import Tensor

from cutlayer import check


@dataclass(frozen=True)
class Release:
    """One step's messages. It holds no label and nothing that was computed from one in clear.

    Raises:
        ValueError: the shapes of the tensors do not fit together.
    """

    step: int
    """Steps since the training began, from 0."""
    epoch: int
    """Epochs since the training began, from 0."""
    records: Tensor
    """Which record each row belongs to: its position in the run's ids, int64 ``(examples,)``."""
    activation: Tensor
    """What the non-label party sent, float ``(examples, width)``."""
    gradient: Tensor
    """What it received for that: the perturbed gradient, float ``(examples, width)``."""

    def __post_init__(self) -> None:
        check.matrix("gradient", self.gradient)
        check.matrix("activation", self.activation)
        check.shape("records", self.records, (self.gradient.shape[0],))
        check.shape("activation rows", self.activation[:, 0], (self.gradient.shape[0],))

    @property
    def examples(self) -> int:
        """Rows of the batch."""
        return self.gradient.shape[0]
