"""What the label party does with one message, for each stage at which a protection may act.

This is where a gradient is perturbed: :meth:`TopTrainer.answer` returns what is sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cutlayer.errors import ConfigurationError, DataError, ProtectionError
from cutlayer.parties.compute import Accumulator, Compute, MakeOptimizer
from cutlayer.parties.message_top_probe import MessageTopProbe
from cutlayer.parties.separate_tops import (
    require_separate_optimizers,
    require_separate_tops,
    untouched,
)
from cutlayer.protections.base import GradientProtection, Protection
from cutlayer.protections.residual import Residual
from cutlayer.rng import NoiseSource

MESSAGE_TOP = "message_top"
"""Name of the top that makes messages and sees no features of the label party."""

_PRIMED = "primed"


@dataclass(frozen=True)
class StepInput:
    """One activation that waits for its gradient, and what the label party knows about its rows."""

    step: int
    """Number of the message."""
    visit: int
    """How often its records were visited before."""
    marks: Tensor
    """What the noise of a visit knows the records by, ``(examples, ...)``."""
    activation: Tensor
    """As received, ``(examples, width)``."""
    own_features: Tensor
    """Of the label party, ``(examples, ...)``."""
    labels: Tensor
    """0 or 1, ``(examples,)``."""
    share: float = 1.0
    """Of the rows of its batch that the message has: the weight of its mean loss in the update of
    the top. What is sent is the gradient of that mean loss itself, so that a protection sees a
    message in the same unit whatever batch it is of."""
    audited: bool = False
    """Whether the clean gradient is wanted as well."""


@dataclass(frozen=True)
class StepOutput:
    """The reply to one activation."""

    gradient: Tensor
    """What is sent, ``(examples, width)``."""
    clean_gradient: Tensor | None
    """What would have been sent without protection; only where an audit asked for it."""


class TopTrainer(ABC):
    """The label party's half in training."""

    @abstractmethod
    def answer(self, step_input: StepInput) -> StepOutput:
        """Compute the gradient to send, already perturbed, and keep the update for later.

        The noise of a gradient belongs to this step and these values, that of a residual to the
        records and the visit: the same message in the same state gets the same answer again.

        Raises:
            ProtectionError: the protection cannot be applied; nothing may be sent.
        """

    @abstractmethod
    def update(self, *, complete: bool) -> None:
        """Take the optimizer step if the last answer completed its batch; else keep its part."""

    @abstractmethod
    def predict(self, activation: Tensor, own_features: Tensor) -> Tensor:
        """Logits, without gradient, ``(examples,)``."""

    @property
    @abstractmethod
    def halves(self) -> dict[str, nn.Module]:
        """The trained modules by name, for saving."""

    @property
    @abstractmethod
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Their optimizers by the same names."""

    def state(self) -> dict[str, Tensor]:
        """What the batches so far have left behind in the protection, for a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up again what :meth:`state` gave.

        Raises:
            DataError: it belongs to another protection.
        """
        if state:
            raise DataError(
                "label party: the checkpoint holds the state of another protection. Go on with "
                "the one that the run had."
            )


def restore_protection(protection: Protection, state: Mapping[str, Tensor]) -> bool:
    """Give a protection back what a checkpoint keeps of it.

    Args:
        protection: with the settings of the run.
        state: as :meth:`TopTrainer.state` gave it.

    Returns:
        Whether it was primed, and so has seen a batch; False for protections that need no priming.

    Raises:
        DataError: the state belongs to another protection.
    """
    kept = dict(state)
    primed = kept.pop(_PRIMED, None) is not None
    try:
        protection.restore(kept)
    except KeyError as error:
        raise DataError(
            f"label party: the checkpoint is not of {protection.name} ({error} is missing). Go on "
            "with the protection that the run had."
        ) from error
    return primed


class GradientTopTrainer(TopTrainer):
    """One top, trained on clean labels; the cut gradient is perturbed on its way out."""

    def __init__(
        self,
        top: nn.Module,
        protection: GradientProtection,
        make_optimizer: MakeOptimizer,
        noise: NoiseSource,
        compute: Compute,
    ) -> None:
        self._top, self._protection, self._noise = top, protection, noise
        self._forward = compute.forward_of(top)
        self._steps = Accumulator(make_optimizer(list(top.parameters())))
        self._primed = False

    @override
    def answer(self, step_input: StepInput) -> StepOutput:
        own_features, labels = step_input.own_features, step_input.labels
        if not self._primed:
            self._prime(step_input.activation, own_features)
        leaf = step_input.activation.detach().requires_grad_()
        self._steps.begin()
        (_mean_loss(self._forward(leaf, own_features), labels) * step_input.share).backward()
        clean = _required(leaf.grad) / step_input.share
        noise = self._noise.for_release(step_input.step, clean, labels)
        gradient = self._protection.perturb(clean, labels, noise=noise)
        return StepOutput(gradient, clean if step_input.audited else None)

    def fit(self, activation: Tensor, own_features: Tensor, labels: Tensor) -> None:
        """Learn from one batch of activations that get no gradient back."""
        self._steps.begin()
        _mean_loss(self._forward(activation, own_features), labels).backward()
        self._steps.finish(complete=True)

    @override
    def update(self, *, complete: bool) -> None:
        self._steps.finish(complete=complete)

    @override
    def predict(self, activation: Tensor, own_features: Tensor) -> Tensor:
        with torch.no_grad():
            return self._forward(activation, own_features)

    @property
    @override
    def halves(self) -> dict[str, nn.Module]:
        return {"top": self._top}

    @property
    @override
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"top": self._steps.optimizer}

    @override
    def state(self) -> dict[str, Tensor]:
        if not self._primed:
            return {}
        return {_PRIMED: torch.ones(1), **self._protection.state()}

    @override
    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._primed = restore_protection(self._protection, state)

    def _prime(self, activation: Tensor, own_features: Tensor) -> None:
        """Show the protection both classes: the first message under label 1, then under label 0.

        Done for every protection and every first message, so that its cost tells nothing.
        """
        self._primed = True
        both = []
        for label in (1, 0):
            leaf = activation.detach().requires_grad_()
            labels = torch.full((len(activation),), label, device=activation.device)
            loss = _mean_loss(self._forward(leaf, own_features), labels)
            both.append(_required(torch.autograd.grad(loss, leaf, allow_unused=True)[0]))
        labels = (
            torch.arange(2, device=activation.device).flip(0).repeat_interleave(len(activation))
        )
        self._protection.prime(torch.cat(both) / 2, labels)  # of the mean over both halves


class ResidualTopTrainer(TopTrainer):
    """Two tops: one that makes the messages, and one that predicts.

    The message head learns from noisy residuals only and makes every message; the prediction
    head learns from clean labels on detached activations and never leaves. The message head sees
    no features of the label party: they would tell about the label beside the residual, and the
    non-label party does not know them.

    So labels reach messages through the noisy residual alone, which is what the guarantee needs.
    Its noise belongs to the record and the visit, whatever the step, the batch and the activation:
    a second answer for the same visit differs from the first by numbers that no label changes.
    Tops and optimizers that share tensors are refused, here or before the first message is sent,
    and so is a message top that reads the prediction top some other way, or is written by it, as
    far as :class:`~cutlayer.parties.message_top_probe.MessageTopProbe` can see. A message top that
    reads labels from elsewhere, as from a global variable, cannot be seen.

    Raises:
        ConfigurationError: the tops, or their optimizers, share tensors.
    """

    def __init__(
        self,
        message_top: nn.Module,
        prediction_top: nn.Module,
        protection: Residual,
        make_optimizer: MakeOptimizer,
        noise: NoiseSource,
        compute: Compute,
    ) -> None:
        require_separate_tops(message_top, prediction_top)
        self._message_top, self._prediction_top = message_top, prediction_top
        self._message_forward = compute.forward_of(message_top)
        self._prediction_forward = compute.forward_of(prediction_top)
        run = compute.precise(message_top)
        self._probe = MessageTopProbe(message_top, prediction_top, run)
        self._protection, self._noise = protection, noise
        self._message_steps, self._prediction_steps = (
            Accumulator(make_optimizer(list(top.parameters())))
            for top in (message_top, prediction_top)
        )
        optimizers = self._message_steps.optimizer, self._prediction_steps.optimizer
        require_separate_optimizers(*optimizers, message_top, prediction_top)

    @override
    def answer(self, step_input: StepInput) -> StepOutput:
        with untouched(self._prediction_top, "prediction"):
            answer = self._make_message(step_input)
        self._probe.begin(step_input.activation)
        with self._probe.unwritten(), untouched(self._message_top, "message"):
            self._learn_to_predict(step_input)
        self._probe.require_unread()
        return answer

    @override
    def update(self, *, complete: bool) -> None:
        with untouched(self._prediction_top, "prediction"):
            self._message_steps.finish(complete=complete)
        with self._probe.unwritten(), untouched(self._message_top, "message"):
            self._prediction_steps.finish(complete=complete)

    @override
    def predict(self, activation: Tensor, own_features: Tensor) -> Tensor:
        with torch.no_grad():
            return self._prediction_forward(activation, own_features)

    @property
    @override
    def halves(self) -> dict[str, nn.Module]:
        return {MESSAGE_TOP: self._message_top, "prediction_top": self._prediction_top}

    @property
    @override
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {
            MESSAGE_TOP: self._message_steps.optimizer,
            "prediction_top": self._prediction_steps.optimizer,
        }

    def _make_message(self, step_input: StepInput) -> StepOutput:
        """The gradient to send, from the noisy residual."""
        leaf, labels = step_input.activation.detach().requires_grad_(), step_input.labels
        nothing = step_input.own_features.flatten(1)[:, :0]
        logit = _checked(self._message_forward(leaf, nothing), len(labels))
        clean = self._clean_gradient(logit, leaf, labels) if step_input.audited else None
        noise = self._noise.for_visit(
            step_input.visit, step_input.marks, self._protection.noise_deviation
        )
        residual = self._protection.noisy_residual(logit.detach(), labels, noise=noise)
        self._message_steps.begin()
        logit.backward(residual / len(labels) * step_input.share)
        return StepOutput(_required(leaf.grad) / step_input.share, clean)

    def _learn_to_predict(self, step_input: StepInput) -> None:
        """Clean labels meet a detached activation, in the prediction top alone."""
        self._prediction_steps.begin()
        logit = self._prediction_forward(step_input.activation.detach(), step_input.own_features)
        (_mean_loss(logit, step_input.labels) * step_input.share).backward()

    def _clean_gradient(self, logit: Tensor, leaf: Tensor, labels: Tensor) -> Tensor:
        """The message without its noise, for an audit."""
        residual = (torch.sigmoid(logit.detach()) - labels) / len(labels)
        return torch.autograd.grad(logit, leaf, residual, retain_graph=True)[0]


def top_trainer_for(
    protection: Protection,
    make_top: Callable[[str], nn.Module],
    make_optimizer: MakeOptimizer,
    noise: NoiseSource,
    compute: Compute,
) -> TopTrainer:
    """The head that a protection's stage asks for.

    Args:
        protection: of the run.
        make_top: builds a top; called with ``"top"``, or with ``MESSAGE_TOP``, which gets no
            features of the label party, and ``"prediction_top"``.
        make_optimizer: builds an optimizer for a top's parameters.
        noise: where the protection's randomness comes from.
        compute: how the label party computes.

    Raises:
        ProtectionError: no head exists for this protection.
    """
    if isinstance(protection, GradientProtection):
        return GradientTopTrainer(make_top("top"), protection, make_optimizer, noise, compute)
    if isinstance(protection, Residual):
        tops = make_top(MESSAGE_TOP), make_top("prediction_top")
        return ResidualTopTrainer(*tops, protection, make_optimizer, noise, compute)
    raise ProtectionError(
        f"label party: {protection.name} acts at stage {protection.stage.value}, for which the "
        "label party has no head. Choose a protection of stage gradient or residual."
    )


def _mean_loss(logit: Tensor, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy over the message."""
    logit = _checked(logit, len(labels))
    return functional.binary_cross_entropy_with_logits(logit, labels.to(logit.dtype))


def _checked(logit: Tensor, examples: int) -> Tensor:
    """Require one logit for each example.

    Raises:
        ConfigurationError: the top gives something else.
    """
    if tuple(logit.shape) != (examples,):
        raise ConfigurationError(
            f"label party: the top must return one logit for each record, shape ({examples},), got "
            f"{tuple(logit.shape)}. Squeeze its last dimension."
        )
    return logit


def _required(gradient: Tensor | None) -> Tensor:
    """The gradient at the cut.

    Raises:
        ProtectionError: the logit does not depend on the activation.
    """
    if gradient is None:
        raise ProtectionError(
            "label party: the top's logit does not depend on the activation, so there is no "
            "gradient to send. Use the activation in the top's forward."
        )
    return gradient
