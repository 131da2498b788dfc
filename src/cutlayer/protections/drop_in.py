"""Drop-ins for a training loop of one's own: one line between bottom and top, or one loss."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from typing_extensions import override

from cutlayer import check
from cutlayer.errors import ProtectionError
from cutlayer.protections.base import GradientProtection
from cutlayer.protections.residual import Residual
from cutlayer.rng import NoiseSource, SecretNoise


def protect(
    activation: Tensor,
    labels: Tensor,
    protection: GradientProtection,
    *,
    noise: NoiseSource | None = None,
) -> Tensor:
    """Pass the activation on unchanged, and perturb the gradient that comes back through it.

    Put it between bottom and top, at the label party: ``z = protect(z, labels, Marvell(s=4.0))``.
    Make the protection once, before the loop: averages over batches live in it.

    Args:
        activation: cut-layer activation, float, shape ``(examples, ...)``.
        labels: of the batch, 0 or 1, shape ``(examples,)``.
        protection: of stage ``gradient``.
        noise: where the randomness comes from; by default a fresh secret source. A
            :class:`~cutlayer.rng.SeededNoise` is for simulations only.

    Returns:
        A tensor equal to ``activation``. A second backward pass over the same graph gives the
        same perturbed gradient again, never a second draw for it.

    Raises:
        ValueError: the labels do not fit, or ``protection`` has another stage.
        ProtectionError: in the backward pass, if the protection cannot be applied.
    """
    if not isinstance(protection, GradientProtection):
        raise ValueError(
            f"protect takes a protection of stage gradient, got {protection!r}. For Residual use "
            "protected_loss."
        )
    check.binary_labels("labels", labels, examples=activation.shape[0])
    # A source for each call: a key that two forked processes shared would repeat its noise.
    return _Protect.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
        activation, labels, protection, noise or SecretNoise()
    )


def protected_loss(
    logit: Tensor, labels: Tensor, protection: Residual, *, noise: NoiseSource | None = None
) -> Tensor:
    r"""Mean binary cross-entropy whose gradient at the logit carries the residual noise.

    .. math:: \frac{\partial\,\mathrm{loss}}{\partial\,\mathrm{logit}_i} = \frac{c_i}{B}, \qquad
              c_i = \sigma(\mathrm{logit}_i) - y_i + \mathrm{noise}_i

    The division by the number of examples B is the only scaling; a factor on the loss (a loss
    scaler, say) scales gradient and noise alike. The guarantee of
    :class:`~cutlayer.protections.residual.Residual` holds for everything that is trained with
    this loss, if nothing else that depends on the labels reaches the peer: for the best
    predictions train a second top on clean labels and a detached activation.

    Args:
        logit: of the positive class, float, shape ``(examples,)``.
        labels: of the batch, 0 or 1, shape ``(examples,)``.
        protection: how much noise.
        noise: where the randomness comes from; by default a fresh secret source.

    Returns:
        A scalar: the value of the clean loss (it depends on the labels: do not send it), with
        the noisy gradient.

    Raises:
        ValueError: the shapes do not fit, or ``protection`` is not a residual one.
        ProtectionError: a logit is not finite.
    """
    if not isinstance(protection, Residual):
        raise ValueError(
            f"protected_loss takes a Residual, got {protection!r}. For others use protect."
        )
    check.shape("logit", logit, (logit.numel(),))
    check.binary_labels("labels", labels, examples=logit.numel())
    residual = protection.noisy_residual(logit.detach(), labels, noise=noise or SecretNoise())
    noisy = (residual * logit).mean()
    with torch.no_grad():
        clean = functional.binary_cross_entropy_with_logits(logit, labels.to(logit.dtype))
    # The value is the clean loss; the gradient is that of the noisy term alone.
    return noisy - noisy.detach() + clean


class _Protect(torch.autograd.Function):
    """Identity forward, perturbed backward."""

    @staticmethod
    @override
    def forward(
        ctx: Any,
        activation: Tensor,
        labels: Tensor,
        protection: GradientProtection,
        noise: NoiseSource,
    ) -> Tensor:
        ctx.labels, ctx.protection, ctx.noise = labels, protection, noise
        ctx.sent = None
        return activation.view_as(activation)

    @staticmethod
    @override
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = gradients[0].reshape(gradients[0].shape[0], -1)
        if ctx.sent is None:
            perturbed = ctx.protection.perturb(gradient, ctx.labels, noise=ctx.noise)
            ctx.sent = (gradient.clone(), perturbed)
        elif not torch.equal(ctx.sent[0], gradient):
            raise ProtectionError(
                "label party: a second backward pass through the same protect() brought another "
                "gradient. Two releases of one batch would let their noise be compared; call "
                "protect() again in a new forward pass."
            )
        return ctx.sent[1].reshape(gradients[0].shape), None, None, None
