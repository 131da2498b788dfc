"""Drop-ins for a training loop of one's own: one line between bottom and top, or one loss."""

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from typing_extensions import override

from cutlayer import check
from cutlayer.errors import NotFiniteError, ProtectionError
from cutlayer.protections.base import GradientProtection, Protection, require_finite
from cutlayer.protections.residual import Residual
from cutlayer.protections.visit_count import record_ids
from cutlayer.rng import NoiseSource, SecretNoise

BeyondPlan: TypeAlias = Literal["refuse", "allow"]
Function = TypeVar("Function", bound=Callable[..., Any])


def _outside_graphs(function: Function) -> Function:
    """Leave a function out of every compiled graph: noise is drawn anew in each call."""
    disabled: Function = torch.compiler.disable(function)
    return disabled


class LossScaler(Protocol):
    """What the drop-ins ask of a ``torch.amp.GradScaler``."""

    def is_enabled(self) -> bool:
        """Whether it scales, and skips steps whose gradients overflowed."""
        ...


@_outside_graphs
def protect(
    activation: Tensor,
    labels: Tensor,
    protection: GradientProtection,
    *,
    records: Any = None,
    batches_per_epoch: int | None = None,
    beyond_plan: BeyondPlan = "refuse",
    scaler: LossScaler | None = None,
    noise: NoiseSource | None = None,
) -> Tensor:
    """Pass the activation on unchanged, and perturb the gradient that comes back through it.

    Put it between bottom and top, at the label party: ``z = protect(z, labels, Marvell(s=4.0))``.
    Make the protection once, before the loop: averages over batches live in it.

    Args:
        activation: cut-layer activation, float, shape ``(examples, ...)``. Without examples
            there is nothing to perturb, and the gradient passes as it is.
        labels: of the batch, 0 or 1, shape ``(examples,)``.
        protection: of stage ``gradient``.
        records: ids of the rows, as in :func:`protected_loss`.
        batches_per_epoch: instead of ids, as in :func:`protected_loss`.
        beyond_plan: ``refuse`` or ``allow``, as in :func:`protected_loss`.
        scaler: the ``torch.amp.GradScaler`` of the loop, if it has one. Where it is enabled, a
            gradient that overflows becomes infinite in *all* rows instead of an error, so that
            the scaler skips the step. Its protection learns nothing from such a batch. That a
            batch overflowed may depend on its labels: send no such gradient to a peer.
        noise: where the randomness comes from; by default a fresh secret source. A
            :class:`~cutlayer.rng.SeededNoise` is for simulations only.

    Returns:
        A copy of ``activation``, which may be changed in place. A second backward pass over the
        same graph gives the same perturbed gradient again, never a second draw for it.

    Raises:
        ValueError: the labels do not fit, or ``protection`` has another stage.
        ProtectionError: in the backward pass, if the protection cannot be applied, or is planned
            for fewer releases.
    """
    if not isinstance(protection, GradientProtection):
        raise ValueError(
            f"protect takes a protection of stage gradient, got {protection!r}. For Residual use "
            "protected_loss."
        )
    if activation.ndim == 0:
        raise ValueError("activation must have shape (examples, ...), got a single number.")
    check.binary_labels("labels", labels, examples=activation.shape[0])
    # A source for each call: a key that two forked processes shared would repeat its noise.
    count = _count_of(protection, len(labels), records, batches_per_epoch, beyond_plan)
    release = _GradientRelease(labels, protection, count, scaler, noise or SecretNoise())
    return _Protect.apply(activation, release)  # type: ignore[no-untyped-call]


@_outside_graphs
def protected_loss(
    logit: Tensor,
    labels: Tensor,
    protection: Residual,
    *,
    records: Any = None,
    batches_per_epoch: int | None = None,
    beyond_plan: BeyondPlan = "refuse",
    noise: NoiseSource | None = None,
) -> Tensor:
    r"""Mean binary cross-entropy whose gradient at the logit carries the residual noise.

    .. math:: \frac{\partial\,\mathrm{loss}}{\partial\,\mathrm{logit}_i} = \frac{c_i}{B}, \qquad
              c_i = \sigma(\mathrm{logit}_i) - y_i + \mathrm{noise}_i

    The division by the number of examples B is the only scaling; a factor on the loss (a loss
    scaler, say) scales gradient and noise alike. The guarantee of
    :class:`~cutlayer.protections.residual.Residual` holds for everything that is trained with
    this loss, if nothing else that depends on the labels reaches the peer: for the best
    predictions train a second top on clean labels and a detached activation. This function cannot
    see the tops: they may share no parameter, buffer or optimizer step, or clean labels pass from
    the second top into the messages of the first.

    The value of this loss is computed from clean labels. Neither it nor anything that it steers,
    as a learning-rate schedule, early stopping or the choice of a checkpoint, may reach the peer.

    Each backward pass is one release of the batch's records, and ``protection.visits`` counts
    them; where ``releases`` are planned, a batch beyond the plan is refused. A new protection
    counts from 0, and ``dataclasses.replace`` makes a new one. So keep one protection for the
    training, and say which records a batch has: without ``records`` or
    ``batches_per_epoch``, every call counts as a visit of every record.

    Args:
        logit: of the positive class, float, shape ``(examples,)``. Without examples the loss is
            NaN, as torch's own, and the gradient empty.
        labels: of the batch, 0 or 1, shape ``(examples,)``.
        protection: how much noise.
        records: ids of the rows, whole numbers or texts, shape ``(examples,)``, for a count by
            record. A record must have the same id in every epoch; 7 and "7" are the same.
        batches_per_epoch: instead of ids: so many calls, ``len(loader)`` say, visit every record
            once. Right for a loader without replacement.
        beyond_plan: ``refuse``, or ``allow`` a batch beyond the planned releases. What then holds
            is ``protection.guarantee(protection.visits.most)``, which is less than was planned.
        noise: where the randomness comes from; by default a fresh secret source.

    Returns:
        A scalar: the value of the clean loss (it depends on the labels: do not send it), with
        the noisy gradient. The noise is drawn in the backward pass, once for each call.

    Raises:
        ValueError: the shapes do not fit, or ``protection`` is not a residual one.
        ProtectionError: a logit is not finite; or, in the backward pass, the protection is planned
            for fewer releases.
    """
    if not isinstance(protection, Residual):
        raise ValueError(
            f"protected_loss takes a Residual, got {protection!r}. For others use protect."
        )
    check.shape("logit", logit, (logit.numel(),))
    check.binary_labels("labels", labels, examples=logit.numel())
    require_finite(logit, "the logit")
    count = _count_of(protection, len(labels), records, batches_per_epoch, beyond_plan)
    release = _ResidualRelease(logit, labels, protection, count, noise or SecretNoise())
    return _ProtectedLoss.apply(logit, release)  # type: ignore[no-untyped-call]


def _count_of(
    protection: Protection,
    examples: int,
    records: Any,
    batches_per_epoch: int | None,
    beyond_plan: BeyondPlan,
) -> Callable[[], None]:
    """What counts the release of one batch, or refuses it."""
    if beyond_plan not in ("refuse", "allow"):
        raise ValueError(f"beyond_plan must be refuse or allow, got {beyond_plan!r}.")
    if records is not None and batches_per_epoch is not None:
        raise ValueError("give records or batches_per_epoch, not both: ids count exactly.")
    ids = None if records is None else record_ids(records, examples=examples)
    calls = 1 if batches_per_epoch is None else batches_per_epoch
    check.at_least("batches_per_epoch", calls, 1)
    plan = protection.planned_releases if beyond_plan == "refuse" else None
    return lambda: protection.visits.add(ids, calls, plan)


class _GradientRelease:
    """The gradient of one batch, perturbed once, however often it is asked for."""

    def __init__(
        self,
        labels: Tensor,
        protection: GradientProtection,
        count: Callable[[], None],
        scaler: LossScaler | None,
        noise: NoiseSource,
    ) -> None:
        self._labels = labels.clone()  # the caller's may change until the backward pass
        self._protection, self._count = protection, count
        self._scaler, self._noise = scaler, noise
        self._sent: tuple[Tensor, Tensor] | None = None

    @_outside_graphs
    def perturbed(self, gradient: Tensor) -> Tensor:
        """What leaves in place of this gradient."""
        if gradient.numel() == 0:
            return gradient
        if self._sent is None:
            try:
                sent = self._protection.perturb(
                    gradient.flatten(1), self._labels, noise=self._noise
                )
            except NotFiniteError as error:
                return self._overflowed(gradient, error)
            self._count()
            self._sent = (gradient.clone(), sent)
        elif not torch.equal(self._sent[0], gradient):
            raise ProtectionError(
                "label party: a second backward pass through the same protect() brought another "
                "gradient. Two releases of one batch would let their noise be compared; call "
                "protect() again in a new forward pass."
            )
        return self._sent[1].reshape(gradient.shape)

    def _overflowed(self, gradient: Tensor, error: NotFiniteError) -> Tensor:
        """The same for every row, so that nothing of the labels leaves; for a scaler to skip."""
        if self._scaler is None or not self._scaler.is_enabled():
            raise NotFiniteError(
                f"{error} If a torch.amp.GradScaler scales this loss, pass it to protect() as "
                "scaler=: it then skips such a step."
            ) from error
        return torch.full_like(gradient, math.inf)


class _ResidualRelease:
    """The residuals of one batch, whose noise is drawn once."""

    def __init__(
        self,
        logit: Tensor,
        labels: Tensor,
        protection: Residual,
        count: Callable[[], None],
        noise: NoiseSource,
    ) -> None:
        self._logit, self.labels = logit.detach().clone(), labels.clone()
        self._protection, self._count, self._noise = protection, count, noise
        self._sent: Tensor | None = None

    @_outside_graphs
    def residual(self) -> Tensor:
        """The noisy residuals."""
        if self._sent is None and self._logit.numel():
            self._count()
            self._sent = self._protection.noisy_residual(
                self._logit, self.labels, noise=self._noise
            )
        return self._logit if self._sent is None else self._sent


class _Protect(torch.autograd.Function):
    """Identity forward, perturbed backward."""

    @staticmethod
    @override
    def forward(activation: Tensor, release: _GradientRelease) -> Tensor:
        return activation.clone()  # a view could not be changed in place by the top

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.release = inputs[1]

    @staticmethod
    @override
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.release.perturbed(gradients[0]), None


class _ProtectedLoss(torch.autograd.Function):
    """Clean loss forward, noisy residual backward."""

    @staticmethod
    @override
    def forward(logit: Tensor, release: _ResidualRelease) -> Tensor:
        labels = release.labels.to(logit.dtype)
        return functional.binary_cross_entropy_with_logits(logit, labels)

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.release = inputs[1]

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        residual = ctx.release.residual()
        return gradients[0] / len(residual) * residual, None
