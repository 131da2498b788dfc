"""Keep the top that makes messages separate from the top that learns from clean labels."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cutlayer.errors import ConfigurationError

WHY = (
    "The message top may learn from noisy residuals only, and the prediction top learns from clean "
    "labels: what they share carries labels into messages, past every bound."
)
REMEDY = "Build each top with modules and tensors of its own; copy.deepcopy gives equal weights."


def require_separate_tops(message_top: nn.Module, prediction_top: nn.Module) -> None:
    """Refuse two tops of which one holds a parameter, a buffer or their memory of the other.

    Looked at are parameters and buffers, also of tied and parametrised layers, and what is kept
    beside them in plain attributes, lists and dictionaries. A tensor that both keep in plain
    attributes is a constant for both, and is allowed.

    Raises:
        ConfigurationError: they share a tensor, or memory of one.
    """
    if message_top is prediction_top:
        raise ConfigurationError(
            f"label party: message top and prediction top are one module. {WHY} {REMEDY}"
        )
    mine, other = registered_tensors(message_top), registered_tensors(prediction_top)
    pairs = [
        *product(mine, kept_tensors(prediction_top)),
        *product(kept_tensors(message_top), other),
    ]
    for (name, tensor), (other_name, other_tensor) in [*product(mine, other), *pairs]:
        if _overlap(tensor, other_tensor):
            raise ConfigurationError(
                f"label party: {name} of the message top and {other_name} of the prediction top "
                f"share memory. {WHY} {REMEDY}"
            )


def require_separate_optimizers(
    message: torch.optim.Optimizer,
    prediction: torch.optim.Optimizer,
    message_top: nn.Module,
    prediction_top: nn.Module,
) -> None:
    """Refuse optimizers that share a parameter, or of which one holds those of the other's top.

    Raises:
        ConfigurationError: they do.
    """
    mine, other = _optimized(message), _optimized(prediction)
    own, foreign = (set(map(id, top.parameters())) for top in (message_top, prediction_top))
    if mine & (other | foreign) or other & own:
        raise ConfigurationError(
            "label party: the optimizers of message top and prediction top hold the same "
            f"parameters. {WHY} make_optimizer must return a new optimizer in each call, for the "
            "parameters that it is given."
        )


@contextmanager
def untouched(top: nn.Module, name: str) -> Iterator[None]:
    """Refuse a body that changes values or gradients of a top that is none of its business.

    This finds what is tied only when it runs: in ``forward``, in a hook, in an optimizer.

    Raises:
        ConfigurationError: the body changed something.
    """
    before = _marks(top)
    yield
    if _marks(top) != before:
        raise ConfigurationError(
            f"label party: a step of the other top changed weights or gradients of the {name} top."
            f" {WHY} {REMEDY}"
        )


def _optimized(optimizer: torch.optim.Optimizer) -> set[int]:
    """Identities of the parameters that an optimizer updates."""
    return {id(one) for group in optimizer.param_groups for one in group["params"]}


def _marks(top: nn.Module) -> list[tuple[int, ...]]:
    """Numbers that change with every write to a tensor of the top or to its gradient."""
    marks = []
    for _, tensor in registered_tensors(top):
        memory = 0 if is_lazy(tensor) else tensor.data_ptr()
        gradient = tensor.grad if tensor.is_leaf else None
        written = () if gradient is None else (id(gradient), gradient._version)
        marks.append((id(tensor), memory, tensor._version, *written))
    return marks


def registered_tensors(top: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters and buffers by name."""
    return [*top.named_parameters(), *top.named_buffers()]


def kept_tensors(top: nn.Module) -> list[tuple[str, Tensor]]:
    """Tensors that plain attributes of the top's modules lead to."""
    known = {id(module) for module in top.modules()}
    found: list[tuple[str, Tensor]] = []

    def look(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            found.append((name, value))
        elif isinstance(value, nn.Module) and id(value) not in known:
            known.add(id(value))
            found.extend((f"{name}.{part}", tensor) for part, tensor in registered_tensors(value))
            look(name, vars(value))
        elif isinstance(value, dict | list | tuple) and id(value) not in known:
            known.add(id(value))
            named = value.items() if isinstance(value, dict) else enumerate(value)
            for key, one in named:
                look(f"{name}.{key}", one)

    for name, module in top.named_modules():
        for key, value in vars(module).items():
            if key not in ("_parameters", "_buffers", "_modules"):
                look(f"{name}.{key}".removeprefix("."), value)
    return found


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether a write to one may change the other."""
    if one is other:
        return True
    if one.device != other.device:
        return False
    (begin, end), (other_begin, other_end) = memory_of(one), memory_of(other)
    return begin < other_end and other_begin < end


def memory_of(tensor: Tensor) -> tuple[int, int]:
    """Where the tensor's whole storage begins and ends; nowhere, if it has none."""
    if is_lazy(tensor) or tensor.layout != torch.strided:
        return 0, 0
    storage = tensor.untyped_storage()
    begin = storage.data_ptr()
    return begin, begin + storage.nbytes() if begin else 0
