"""Flights: activations on their way, each with the weights that its gradient leads back through."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.func import functional_call

from cutlayer.parties.compute import Compute


@dataclass(frozen=True)
class Flight:
    """One activation whose gradient has not come back."""

    step: int
    activation: Tensor
    weights: Mapping[str, Tensor] | None
    """Copies of the weights that made it; ``None`` where they are the bottom's own, which then
    must not change before the gradient is back."""

    def land(self, bottom: nn.Module, gradient: Tensor) -> None:
        """Lead a gradient back and add the result to the gradients of the bottom's own weights."""
        # torch's autograd entry points carry no types.
        cast("Callable[[Tensor], None]", self.activation.backward)(gradient)
        if self.weights is None:
            return
        for name, own in bottom.named_parameters():
            arrived = self.weights[name].grad
            if arrived is not None:
                own.grad = arrived if own.grad is None else own.grad + arrived


def take_off(step: int, bottom: nn.Module, rows: Tensor, compute: Compute) -> Flight:
    """Run the bottom with copies of its weights, so that it may be updated during the flight."""
    copies = {
        name: weight.detach().clone().requires_grad_(weight.requires_grad)
        for name, weight in bottom.named_parameters()
    }

    def forward(inputs: Tensor) -> Tensor:
        return functional_call(bottom, copies, (inputs,))

    return Flight(step, compute.precise(forward)(rows), copies)
