"""How a party computes: device, precision, accumulation, compilation. Its own affair each."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cutlayer import check

Forward = Callable[..., Tensor]
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
"""Builds an optimizer for the parameters of a half."""


@dataclass(frozen=True)
class Compute:
    """Settings of one party's computation; the peer need not know them.

    Raises:
        ValueError: ``accumulate`` is below 1, or the device is unknown.
    """

    device: str = "cpu"
    """As torch names it: ``cpu``, ``cuda``, ``cuda:1``."""
    autocast: torch.dtype | None = None
    """Lower precision for the forward pass, such as ``torch.bfloat16``; weights and noise stay in
    float32 or better."""
    accumulate: int = 1
    """Batches whose gradients are averaged into one optimizer step; never across a kept state."""
    compile: bool = False
    """Whether halves run through ``torch.compile``."""

    def __post_init__(self) -> None:
        check.at_least("accumulate", self.accumulate, 1)
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
    """Averages the gradients of several batches into one optimizer step."""

    def __init__(self, optimizer: torch.optim.Optimizer, batches: int) -> None:
        self.optimizer = optimizer
        self._batches, self._pending = batches, 0

    def begin(self) -> None:
        """Before a backward pass."""
        if self._pending == 0:
            self.optimizer.zero_grad()

    def finish(self, *, flush: bool) -> None:
        """After it: take the step if the batches are complete, or ``flush`` asks for it."""
        self._pending += 1
        if self._pending < self._batches and not flush:
            return
        if self._pending > 1:
            for group in self.optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad /= self._pending
        self.optimizer.step()
        self._pending = 0
