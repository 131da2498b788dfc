"""How a party computes: device, precision, compilation. Its own affair each."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Forward = Callable[..., Tensor]
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
"""Builds an optimizer for the parameters of a half."""
WEIGHT_DECAY = 1e-3
"""Of Adam, where nobody says otherwise: added to the gradient, not decoupled. It was chosen by the
measurement in docs/configuration.md."""


@dataclass(frozen=True)
class Compute:
    """Settings of one party's computation; the peer need not know them.

    Raises:
        ValueError: the device is unknown.
    """

    device: str = "cpu"
    """As torch names it: ``cpu``, ``cuda``, ``cuda:1``."""
    autocast: torch.dtype | None = None
    """Lower precision for the forward pass, such as ``torch.bfloat16``; weights and noise stay in
    float32 or better."""
    compile: bool = False
    """Whether halves run through ``torch.compile``."""

    def __post_init__(self) -> None:
        try:
            torch.device(self.device)
        except RuntimeError as error:
            raise ValueError(
                f"device must be one that torch knows, got {self.device!r}."
            ) from error

    def forward_of(self, half: nn.Module) -> Forward:
        """The half as it is called: compiled if asked for, and at the lower precision."""
        return self.precise(torch.compile(half) if self.compile else half)

    def precise(self, run: Forward) -> Forward:
        """A forward pass at the lower precision, if there is one."""

        def forward(*inputs: Tensor) -> Tensor:
            with self._precision():
                return run(*inputs).float()

        return run if self.autocast is None else forward

    def place(self, tensor: Tensor) -> Tensor:
        """The tensor on this party's device."""
        return tensor.to(self.device)

    def _precision(self) -> AbstractContextManager[None]:
        """Autocast of the forward pass."""
        return torch.autocast(torch.device(self.device).type, dtype=self.autocast)


class Accumulator:
    """Adds up the gradients of the messages of a batch into one optimizer step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self._pending = False

    def begin(self) -> None:
        """Before the backward pass of a message."""
        if not self._pending:
            self.optimizer.zero_grad()
        self._pending = True

    def finish(self, *, complete: bool) -> None:
        """After it: take the step if the message was the last of its batch."""
        if complete:
            self.optimizer.step()
            self._pending = False
