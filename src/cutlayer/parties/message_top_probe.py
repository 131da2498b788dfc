"""Check by behaviour that nothing of the prediction top changes what the message top returns."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from cutlayer.errors import ConfigurationError
from cutlayer.parties.compute import Forward
from cutlayer.parties.separate_tops import (
    REMEDY,
    WHY,
    kept_tensors,
    memory_of,
    registered_tensors,
)

_FIRST, _EVERY = 3, 100
_REFUSALS = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
"""What a top may raise on an activation that it would never get."""


class MessageTopProbe:
    """Runs the message top on the side, to see whether it follows the prediction top.

    Done for the first 3 messages since the party was started and for every 100th after them,
    before the reply is sent, with the same work whatever the labels:

    - All bits of the parameters, buffers and gradients of the prediction top are inverted for one
      evaluation of the message top, then inverted back. Its logits must stay the same to the bit.
    - What the message top keeps and returns must be the same before and after the prediction top
      learns, to the bit. This finds writes that no version counter shows. A write of equal values
      is found once they differ: before the second message, the first that labels have a part in.

    The logits are those of the received activation and of a fixed one, since a peer could
    send zeros. An evaluation leaves behind no value, attribute or state of a random generator, so
    training stays the same to the bit. Forward hooks do run.

    Not seen: a tie that first shows between the messages that are checked; a message top whose
    logits differ when it is called twice in the same state.

    Args:
        message_top: makes the messages.
        prediction_top: learns from clean labels.
        run: calls the message top, at its precision.
    """

    def __init__(self, message_top: nn.Module, prediction_top: nn.Module, run: Forward) -> None:
        self._message_top, self._prediction_top, self._run = message_top, prediction_top, run
        self._messages = 0
        self._activations: list[Tensor] = []

    def begin(self, activation: Tensor) -> None:
        """A message was made from an activation, ``(examples, width)``."""
        due = self._messages < _FIRST or self._messages % _EVERY == 0
        self._messages += 1
        self._activations = []
        if due:  # a copy: a top may write into the activation that it is given
            self._activations = [activation.detach().clone(), _other_than(activation)]

    def require_unread(self) -> None:
        """Refuse a message top whose logits change with tensors of the prediction top.

        Raises:
            ConfigurationError: they do.
        """
        if not self._activations:
            return
        first, second = self._logits(), self._logits()
        with _inverted(_with_gradients(self._prediction_top)):
            third = self._logits()
        if _equal(first, second) and not _equal(first, third):
            raise ConfigurationError(
                "label party: the message top reads tensors of the prediction top: its logits "
                f"change with them. {WHY} {REMEDY}"
            )

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Refuse a body, a step of the prediction top, that changes the message top.

        Raises:
            ConfigurationError: the body changed what the message top keeps or returns.
        """
        if not self._activations:
            yield
            return
        kept = [*_with_gradients(self._message_top), *_tensors(kept_tensors(self._message_top))]
        values, first, second = [_bits(one) for one in kept], self._logits(), self._logits()
        yield
        if not _equal(values, [_bits(one) for one in kept]):
            what = "values that the message top keeps"
        elif _equal(first, second) and not _equal(first, self._logits()):
            what = "the logits of the message top"
        else:
            return
        raise ConfigurationError(
            f"label party: a step of the prediction top changed {what}. {WHY} {REMEDY}"
        )

    def _logits(self) -> list[Tensor]:
        """The message top's logits as bits; empty where it cannot be run on an activation."""
        return [self._bits_of_logits(activation) for activation in self._activations]

    def _bits_of_logits(self, activation: Tensor) -> Tensor:
        with torch.no_grad(), _same_draws(activation.device), _unchanged(self._message_top):
            try:
                logit = self._run(activation.clone(), activation.new_empty(len(activation), 0))
            except _REFUSALS:
                return activation.new_empty(0, dtype=torch.uint8)
            return _bits(logit)


@contextmanager
def _same_draws(device: torch.device) -> Iterator[None]:
    """Let a body draw the same numbers each time, as for dropout, and take no others from torch."""
    others = [] if device.type == "cpu" else [device]
    kind = device.type if others else "cuda"
    with torch.random.fork_rng(others, device_type=kind):
        torch.default_generator.manual_seed(0)
        for other in others:
            with torch.get_device_module(other).device(other):
                torch.get_device_module(other).manual_seed(0)
        yield


@contextmanager
def _unchanged(top: nn.Module) -> Iterator[None]:
    """Undo what a body does to attributes, tensors and random generators of a top."""
    modules = list(top.modules())
    dictionaries = [vars(module) for module in modules]
    dictionaries += [
        part
        for module in modules
        for part in (module._parameters, module._buffers)
        if isinstance(part, dict)
    ]
    attributes = [(one, dict(one)) for one in dictionaries]
    tensors = _tensors([*registered_tensors(top), *kept_tensors(top)])
    values = [(one, one.detach().clone(), _bits(one)) for one in tensors]
    generators = [
        (one, one.get_state())
        for module in modules
        for one in vars(module).values()
        if isinstance(one, torch.Generator)
    ]
    try:
        yield
    finally:
        for dictionary, before in attributes:
            dictionary.clear()
            dictionary.update(before)
        for tensor, value, bits in values:
            if not torch.equal(_bits(tensor), bits):
                tensor.copy_(value)
        for generator, state in generators:
            generator.set_state(state)


@contextmanager
def _inverted(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Invert all bits of numbers for the time of a body; of integers and booleans the lowest."""
    tensors = list({memory_of(one)[0]: one for one in tensors}.values())
    _invert(tensors)
    try:
        yield
    finally:
        _invert(tensors)


@torch.no_grad()
def _invert(tensors: list[Tensor]) -> None:
    """Done twice, nothing has changed; so no copy is needed, and no version counter moves."""
    for tensor in tensors:
        whole = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        unit = torch.uint8 if whole or tensor.dtype == torch.bool else tensor.dtype
        memory = torch.empty(0, dtype=unit, device=tensor.device)
        memory.set_(tensor.untyped_storage())
        memory.bitwise_xor_(255 if whole else 1)


def _with_gradients(top: nn.Module) -> list[Tensor]:
    """Parameters, buffers and their gradients."""
    tensors = _tensors(registered_tensors(top))
    gradients = [one.grad for one in tensors if one.is_leaf and one.grad is not None]
    return [*tensors, *_tensors(("gradient", one) for one in gradients)]


def _tensors(named: Iterable[tuple[str, Any]]) -> list[Tensor]:
    """Those that have memory of their own."""
    return [one for _, one in named if memory_of(one)[0]]


def _other_than(activation: Tensor) -> Tensor:
    """Numbers between -2 and 2 without a pattern, the same each time; no generator is used."""
    places = torch.arange(activation.numel(), dtype=torch.float64)
    return (2 * torch.sin(places * places + 1)).reshape(activation.shape).to(activation)


def _bits(tensor: Tensor) -> Tensor:
    """A copy of the values, byte by byte, so that NaN equals itself."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def _equal(some: list[Tensor], others: list[Tensor]) -> bool:
    """Whether two lists of bits are the same."""
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))
