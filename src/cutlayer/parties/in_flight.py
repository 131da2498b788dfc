"""Batches in flight: activations on their way, each with the weights that it was made with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.func import functional_call

from cutlayer.data import MicroBatch
from cutlayer.parties.compute import Forward


@dataclass(frozen=True)
class InFlightBatch:
    """One activation whose gradient has not come back."""

    part: MicroBatch
    activation: Tensor
    weights: Mapping[str, Tensor] | None
    """Copies of the weights that made it, shared by the flights of one batch; ``None`` where they
    are the bottom's own, which then must not change before the gradient is back."""

    def land(self, bottom: nn.Module, gradient: Tensor) -> None:
        """Lead a gradient back and add the result to the gradients of the bottom's own weights.

        Args:
            bottom: whose weights are to learn.
            gradient: of the mean loss over the rows of this flight, ``(examples, width)``.
        """
        # torch's autograd entry points carry no types.
        cast("Callable[[Tensor], None]", self.activation.backward)(gradient * self.part.share)
        if self.weights is None:
            return
        for name, own in bottom.named_parameters():
            copy = self.weights[name]
            if copy.grad is not None:
                own.grad = copy.grad if own.grad is None else own.grad + copy.grad
                copy.grad = None  # the next flight of the batch brings its own


def copied_weights(bottom: nn.Module) -> dict[str, Tensor]:
    """Weights to take off with, so that the bottom may be updated during the flight."""
    return {
        name: weight.detach().clone().requires_grad_(weight.requires_grad)
        for name, weight in bottom.named_parameters()
    }


def forward_with(bottom: nn.Module, weights: Mapping[str, Tensor]) -> Forward:
    """The bottom as it runs with other weights than its own."""

    def forward(inputs: Tensor) -> Tensor:
        return functional_call(bottom, dict(weights), (inputs,))

    return forward
