"""The residual protection: Gaussian noise on the one number that carries the label."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.errors import ProtectionError
from cutlayer.leakage.gaussian_mechanism import gaussian_leak_auc, gaussian_mu, sigma_for_leak_auc
from cutlayer.leakage.guarantee import Guarantee
from cutlayer.leakage.sum_kl_bounds import leak_auc_bound, sum_kl_for_leak_auc
from cutlayer.protections.base import Protection, Stage
from cutlayer.protections.marvell_solver import MarvellNoise, power_for, solve_marvell
from cutlayer.rng import NoiseSource

_GRID_BITS = 10
_LEAST, _MOST = 1e-12, 1e12
"""Of sigma. Less noise, beside a residual of 1, is none; squares must still have inverses."""
_GROUNDS = (
    "if labels reach the peer only through noisy residuals: the top that sends gradients is "
    "trained on them alone, and no clip, schedule, stop or statistic depends on a clean label"
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

    ``allocation="marvell"`` gives the two classes different noise, :math:`\sigma_1` and
    :math:`\sigma_0`: Marvell's own problem in the space where its assumption is exact (one
    dimension, gap 1, no spread), with mean power ``s``. Less power where one class is rare. The
    noise is exactly Gaussian given the label, so the divergences of releases add even when later
    messages depend on earlier ones, and the sumKL bound holds as proven. ``positive_share`` is a
    declared number and not counted from the labels, which would be one more message about them.

    What the guarantee needs: the *message head*, the top whose gradients are sent, is trained on
    ``c`` and nothing else. A *prediction head* may be trained on clean labels and detached
    activations if it never influences a message.

    Does not protect: what features tell about labels without any message; a person who owns
    several records (m records have m times the divergence); labels that decide something the
    peer can see, as early stopping or a learning rate would.

    Args:
        sigma: standard deviation of the noise, between 1e-12 and 1e12; for
            ``allocation="uniform"``.
        max_leak_auc: instead: the leak AUC in (0.5, 1) that no attack may pass over
        releases: so many planned releases of each record, at least 1.
        allocation: ``uniform`` noise, or ``marvell`` noise by class.
        s: for ``allocation="marvell"``: mean noise power, in units of the squared gap (here 1).
        positive_share: for ``allocation="marvell"``: declared share of positives, in (0, 1).

    Raises:
        ValueError: not exactly one way to fix the noise is given, or a value is out of range.

    Source: label-private gradient perturbation of `Yang et al. (2022)
    <https://arxiv.org/abs/2203.02073>`_; bound by `Dong, Roth and Su (2022)
    <https://arxiv.org/abs/1905.02383>`_; class-dependent noise by `Li et al. (2022)
    <https://arxiv.org/abs/2102.08504>`_, theorem 2, in one dimension.

    >>> round(Residual(sigma=2.0).guarantee(1).leak_auc, 4)  # Phi(1 / (2 sqrt 2))
    0.6382
    >>> round(Residual(max_leak_auc=0.7, releases=10).noise_deviation, 3)
    4.264
    """

    name: ClassVar[str] = "residual"
    stage: ClassVar[Stage] = Stage.RESIDUAL

    sigma: float | None = None
    max_leak_auc: float | None = None
    releases: int | None = None
    allocation: Literal["uniform", "marvell"] = "uniform"
    s: float | None = None
    positive_share: float | None = None

    def __post_init__(self) -> None:
        if self.allocation not in ("uniform", "marvell"):
            raise ValueError(f"allocation must be uniform or marvell, got {self.allocation!r}.")
        fixed, unused = ("sigma", "s") if self.allocation == "uniform" else ("s", "sigma")
        if getattr(self, unused) is not None:
            raise ValueError(f"{unused} has no meaning with allocation {self.allocation!r}.")
        if (getattr(self, fixed) is None) == (self.max_leak_auc is None):
            raise ValueError(
                f"give exactly one of {fixed} and max_leak_auc, got {fixed}="
                f"{getattr(self, fixed)} and max_leak_auc={self.max_leak_auc}."
            )
        if (self.max_leak_auc is None) != (self.releases is None):
            raise ValueError(
                f"max_leak_auc and releases go together, got max_leak_auc={self.max_leak_auc} "
                f"and releases={self.releases}."
            )
        if (self.allocation == "marvell") != (self.positive_share is not None):
            raise ValueError(
                "positive_share belongs to allocation 'marvell' and to no other, got "
                f"{self.positive_share} with {self.allocation!r}."
            )
        _ = self._noise  # refuses values out of range now, not at the first batch

    @property
    def deviation_pos(self) -> float:
        """Standard deviation of the noise on a positive's residual."""
        return math.sqrt(self._noise.along_pos)

    @property
    def deviation_neg(self) -> float:
        """Standard deviation of the noise on a negative's residual."""
        return math.sqrt(self._noise.along_neg)

    @property
    def noise_deviation(self) -> float:
        """Root of the mean noise power: sigma itself where both classes get the same."""
        if self.allocation == "uniform":
            return self.deviation_pos
        share = self.positive_share or 0.0
        noise = self._noise
        return math.sqrt(share * noise.along_pos + (1 - share) * noise.along_neg)

    @property
    def grid_step(self) -> float:
        """Distance of the values that a residual is rounded to: public, alike for both labels."""
        _, exponent = math.frexp(min(self.deviation_pos, self.deviation_neg))
        return math.ldexp(1.0, exponent - 1 - _GRID_BITS)

    @property
    @override
    def planned_releases(self) -> int | None:
        return self.releases

    @property
    @override
    def strength(self) -> str:
        allocation = "" if self.allocation == "uniform" else ", marvell allocation"
        if self.max_leak_auc is not None:
            return f"max_leak_auc={self.max_leak_auc:g} over {self.releases}{allocation}"
        chosen = f"sigma={self.sigma:g}" if self.sigma is not None else f"s={self.s:g}"
        return chosen + allocation

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
        _require_finite(logit, "logit")
        positive = labels.to(device=logit.device, dtype=torch.float64)
        deviation = self.deviation_neg + (self.deviation_pos - self.deviation_neg) * positive
        exact = torch.sigmoid(logit.detach().double()) - positive
        noisy = exact + deviation * noise.normal_like(exact)
        step = self.grid_step
        rounded = (torch.round(noisy / step) * step).to(logit.dtype)
        _require_finite(rounded, "noisy residual")
        return rounded

    @override
    def guarantee(self, releases: int) -> Guarantee:
        check.at_least("releases", releases, 0)
        if self.allocation == "uniform":
            bound = gaussian_leak_auc(gaussian_mu(self.deviation_pos, releases=releases))
            return Guarantee(
                "rigorous", bound, releases, f"Gaussian mechanism on the label, {_GROUNDS}."
            )
        bound = leak_auc_bound(releases * self._noise.sum_kl)
        return Guarantee(
            "rigorous", bound, releases, f"sumKL of Gaussian noise on the label, {_GROUNDS}."
        )

    @cached_property
    def _noise(self) -> MarvellNoise:
        """The two noise variances: the optimum in one dimension, or the same for both classes."""
        if self.allocation == "uniform":
            sigma = self.sigma
            if sigma is None:
                sigma = sigma_for_leak_auc(self.max_leak_auc or 0.0, releases=self.releases or 0)
            check.between("sigma", sigma, _LEAST, _MOST)
            return MarvellNoise(sigma * sigma, 0.0, sigma * sigma, 0.0, 1 / (sigma * sigma))
        share = self.positive_share or 0.0
        check.between("positive_share", share, 0.0, 1.0)
        power = self.s
        if power is None:
            releases = self.releases or 0
            check.at_least("releases", releases, 1)
            power = power_for(
                variance_pos=0.0,
                variance_neg=0.0,
                gap_squared=1.0,
                positive_share=share,
                width=1,
                max_sum_kl=sum_kl_for_leak_auc(self.max_leak_auc or 0.0) / releases,
            )
        check.between("s", power, _LEAST**2, _MOST**2)
        return solve_marvell(
            variance_pos=0.0,
            variance_neg=0.0,
            gap_squared=1.0,
            positive_share=share,
            width=1,
            power=power,
        )


def _require_finite(value: Tensor, what: str) -> None:
    """Refuse NaN and infinity, and say how many rows hold them."""
    try:
        check.finite(what, value)
    except ValueError as error:
        raise ProtectionError(
            f"label party: {error} Nothing was sent. Lower the learning rate, or look for NaN in "
            "the features and activations."
        ) from error
