"""The residual protection: Gaussian noise on the one number that carries the label."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.leakage.gaussian_mechanism import gaussian_leak_auc, gaussian_mu, sigma_for_leak_auc
from cutlayer.leakage.guarantee import Guarantee
from cutlayer.protections.base import Protection, Stage, require_finite
from cutlayer.rng import NoiseSource

_GRID_BITS = 10
_FINE_BITS = 20
_LEAST, _MOST = 1e-12, 1e12
"""Of sigma. Less noise, beside a residual of 1, is none; squares must still have inverses."""
_GROUNDS = (
    "Gaussian mechanism on the label, if labels reach the peer only through noisy residuals: the "
    "top that sends gradients is trained on them alone, and no clip, schedule, stop or statistic "
    "depends on a clean label."
)
_BY_CLASS = (
    "Noise by class (allocation, s, positive_share) was removed: at the same stated bound it "
    "needed at least 1.56 times the power. Leave it out: sigma or max_leak_auc fixes the noise, "
    "which is the same for both classes."
)


@dataclass(frozen=True)
class Residual(Protection):
    r"""Add noise to the residual, and carry the noisy residual back through the top.

    With logit o and label y, the label party replaces d loss / d logit by

    .. math:: c_i = \operatorname{sigmoid}(o_i) - y_i + \sigma \xi_i, \qquad \xi_i \sim N(0, 1),

    rounded to a grid of step :math:`2^{\lfloor \log_2 \sigma \rfloor - 10}` that is the same for
    both labels. A change of the label moves the residual by exactly 1, so this is the Gaussian
    mechanism on the label: whatever the network, and whatever else the attacker knows, E releases
    of a record leave every attack at

    .. math:: \mathrm{AUC} \le \Phi\left(\sqrt{E / 2} \,/\, \sigma\right).

    In a run, :math:`\xi_i` belongs to the record and the visit (:meth:`NoiseSource.for_visit
    <cutlayer.rng.NoiseSource.for_visit>`). All that a label moves is :math:`\sigma \xi_i - y_i`,
    rounded to a finer grid: one number for each visit, of which every answer is a function, however
    often it is asked for.

    What the guarantee needs: the *message head*, the top whose gradients are sent, is trained on
    ``c`` and nothing else. A *prediction head* may be trained on clean labels and detached
    activations if it never influences a message. A run of two parties refuses heads that share
    weights, and ``protected_loss`` counts visits against ``releases``; a module that reads labels
    from elsewhere can be seen by neither.

    Does not protect: what features tell about labels without any message; a person who owns
    several records (m records have m times the divergence); labels that decide something the
    peer can see, as early stopping or a learning rate would.

    Args:
        sigma: standard deviation of the noise, between 1e-12 and 1e12.
        max_leak_auc: instead: the leak AUC in (0.5, 1) that no attack may pass over
        releases: so many planned releases of each record, at least 1.

    Raises:
        ValueError: not exactly one way to fix the noise is given, or a value is out of range.

    Source: label-private gradient perturbation of `Yang et al. (2022)
    <https://arxiv.org/abs/2203.02073>`_; bound by `Dong, Roth and Su (2022)
    <https://arxiv.org/abs/1905.02383>`_.

    >>> round(Residual(sigma=2.0).guarantee(1).leak_auc, 4)  # Phi(1 / (2 sqrt 2))
    0.6382
    >>> round(Residual(max_leak_auc=0.7, releases=10).noise_deviation, 3)
    4.264
    """

    name: ClassVar[str] = "residual"
    stage: ClassVar[Stage] = Stage.RESIDUAL
    removed_settings: ClassVar[Mapping[str, str]] = {
        "allocation": _BY_CLASS,
        "s": f"{_BY_CLASS} Use sigma, the root of a noise power.",
        "positive_share": _BY_CLASS,
    }

    sigma: float | None = None
    max_leak_auc: float | None = None
    releases: int | None = None

    def __post_init__(self) -> None:
        if (self.sigma is None) == (self.max_leak_auc is None):
            raise ValueError(
                f"give exactly one of sigma and max_leak_auc, got sigma={self.sigma} "
                f"and max_leak_auc={self.max_leak_auc}."
            )
        if (self.max_leak_auc is None) != (self.releases is None):
            raise ValueError(
                f"max_leak_auc and releases go together, got max_leak_auc={self.max_leak_auc} "
                f"and releases={self.releases}."
            )
        if self.max_leak_auc is not None:
            check.between("max_leak_auc", self.max_leak_auc, 0.5, 1.0)
        _ = self.noise_deviation  # refuses values out of range now, not at the first batch

    @cached_property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise: sigma, or what the goal needs."""
        sigma = self.sigma
        if sigma is None:
            sigma = sigma_for_leak_auc(self.max_leak_auc or 0.0, releases=self.releases or 0)
        check.between("sigma", sigma, _LEAST, _MOST)
        return sigma

    @property
    def grid_step(self) -> float:
        """Distance of the values that a residual is rounded to: public, alike for both labels."""
        _, exponent = math.frexp(self.noise_deviation)
        return math.ldexp(1.0, exponent - 1 - _GRID_BITS)

    @property
    def _fine_step(self) -> float:
        """Distance of the values of the noise alone: a label moves them by a whole number of it."""
        return min(math.ldexp(self.grid_step, -_FINE_BITS), 1.0)

    @property
    @override
    def planned_releases(self) -> int | None:
        return self.releases

    @property
    @override
    def strength(self) -> str:
        if self.max_leak_auc is not None:
            return f"max_leak_auc={self.max_leak_auc:g} over {self.releases}"
        return f"sigma={self.sigma:g}"

    def noisy_residual(self, logit: Tensor, labels: Tensor, *, noise: NoiseSource) -> Tensor:
        """Make d loss / d logit with its noise, before any division by the batch size.

        Every row costs the same work and one draw, whatever the labels are.

        Args:
            logit: of the positive class, float, shape ``(examples,)``.
            labels: of the batch, 0 or 1, shape ``(examples,)``.
            noise: where the randomness comes from.

        Returns:
            Noisy residuals, shape, type and device of ``logit``. Values lie on a grid that does
            not depend on labels or logits, so that no low-order bit gives a label away.

        Raises:
            ValueError: a shape or a label is wrong.
            ProtectionError: a logit is NaN or infinite, or a noisy residual overflows the type of
                ``logit``; nothing may be sent.
        """
        check.shape("logit", logit, (logit.numel(),))
        check.at_least("the number of logits", logit.numel(), 1)
        check.binary_labels("labels", labels, examples=logit.numel())
        require_finite(logit, "the logit")
        positive = labels.to(device=logit.device, dtype=torch.float64)
        step, fine = self.grid_step, self._fine_step
        drawn = self.noise_deviation * noise.normal_like(positive)
        noisy_label = torch.round(drawn / fine) * fine - positive  # exact: both lie on the grid
        noisy = noisy_label + torch.sigmoid(logit.detach().double())
        rounded = (torch.round(noisy / step) * step).to(logit.dtype)
        require_finite(rounded, "the noisy residual")
        return rounded

    @override
    def guarantee(self, releases: int) -> Guarantee:
        check.at_least("releases", releases, 0)
        bound = gaussian_leak_auc(gaussian_mu(self.noise_deviation, releases=releases))
        return Guarantee("rigorous", bound, releases, _GROUNDS)
