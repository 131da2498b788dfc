"""The Marvell protection: noise shaped so that the two classes of gradients look alike."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, distributed
from typing_extensions import override

from cutlayer import check
from cutlayer.errors import ProtectionError
from cutlayer.leakage.guarantee import Guarantee
from cutlayer.leakage.sum_kl import sum_kl
from cutlayer.leakage.sum_kl_bounds import leak_auc_bound
from cutlayer.protections.base import GradientProtection, check_batch, require_finite
from cutlayer.protections.batch_statistics import AveragedStatistics, BatchStatistics
from cutlayer.protections.class_moments import Moments, class_moments, gathered
from cutlayer.protections.gradient_unit import sizes_of
from cutlayer.protections.marvell_solver import (
    MarvellNoise,
    goal_sum_kl,
    power_for,
    solve_marvell,
)
from cutlayer.protections.row_blocks import in_row_blocks
from cutlayer.rng import NoiseSource

_WEAKEST = 0.01
"""Least power under a goal, in squared gaps: a zero row is masked however easily it is met."""
_LARGEST = "largest_sum_kl"
_GOALS = ("max_leak_auc", "max_sum_kl", "min_error")


class _Memory:
    """What batches leave behind, and the ranks that share them."""

    def __init__(self) -> None:
        self.averages = AveragedStatistics()
        self.largest_sum_kl: float | None = None
        self.group: distributed.ProcessGroup | None = None
        self.ranks: Literal["own", "all", "lost"] = "own"

    def share(self, group: distributed.ProcessGroup | None) -> None:
        """From now on gather the moments of all ranks of a group."""
        self.group, self.ranks = group, "all"

    def gather(self, moments: Moments) -> Moments:
        """Moments of the batch on all ranks that share it."""
        if self.ranks == "lost":
            raise ProtectionError(
                "label party: this copy of a Marvell shared its statistics with a group of ranks, "
                "and a group cannot be copied or saved. Nothing was sent. Call share_statistics() "
                "on the copy."
            )
        return moments if self.ranks == "own" else gathered(moments, self.group)

    def __getstate__(self) -> dict[str, Any]:
        kept = vars(self).copy()
        if kept["group"] is not None:  # the default group, None, is found again anywhere
            kept.update(group=None, ranks="lost")
        return kept


@dataclass(frozen=True)
class Marvell(GradientProtection):
    r"""Give each class the Gaussian noise under which the classes are hardest to tell apart.

    With :math:`\Delta` the gap between the class means and :math:`e = \Delta / \lVert\Delta\rVert`,
    a row of class c leaves as

    .. math:: \tilde g = g + \left( \sqrt{\lambda_2^{(c)}}\, (I - e e^\top)
              + \sqrt{\lambda_1^{(c)}}\, e e^\top \right) \xi, \qquad \xi \sim N(0, I_d).

    The four variances minimise sumKL under a mean power P
    (:func:`~cutlayer.protections.marvell_solver.solve_marvell`); P is ``s`` squared gaps, or the
    smallest power that reaches a goal for one release.

    ``statistics="averaged"`` (default) describes the classes by averages over batches, so that a
    batch with one class, or with a handful of positives, is perturbed like any other. When all
    gradients change their scale by one factor, as under a loss scaler, the averages follow. They do
    not follow a factor on one class that changes during the training.
    ``statistics="batch"`` is the paper to the letter and refuses a batch with one class.

    Two rules go beyond the paper. A row of zeros whose class would get no noise gets that of the
    other class. A goal that is met with (almost) no noise still gets the power of ``s = 0.01``.

    Does not protect: real gradients, for long. They are nearly of rank 1, not isotropic, and one
    class gets no noise across the gap: its rows have no energy in the directions where only
    noise lives (``tail_energy``, leak AUC 1.0 in one release on real data). And fresh noise
    averages out over epochs. Compare the measured worst attack with the guarantee.

    Args:
        s: noise power in units of the squared mean gap, above 0.
        max_leak_auc: instead: largest leak AUC of one release, in (0.5, 1).
        max_sum_kl: instead: largest sumKL of one release, in nats, above 0.
        min_error: instead: smallest mean error of any yes/no test on one release, in (0, 0.5).
        statistics: ``averaged`` or ``batch``.
        variances: the class variances that the noise is optimised for: ``separate`` as measured,
            ``shared`` their mean for both, ``zero`` for both.

    Raises:
        ValueError: not exactly one of the four strengths is given, or a value is out of range.

    Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, section 4.2 and theorem 2.
    """

    name: ClassVar[str] = "marvell"

    s: float | None = None
    max_leak_auc: float | None = None
    max_sum_kl: float | None = None
    min_error: float | None = None
    statistics: Literal["averaged", "batch"] = "averaged"
    variances: Literal["separate", "shared", "zero"] = "separate"
    _memory: _Memory = field(init=False, repr=False, compare=False, default_factory=_Memory)

    def __post_init__(self) -> None:
        given = [name for name in ("s", *_GOALS) if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of s, {', '.join(_GOALS)}, got {' and '.join(given) or 'none'}."
            )
        if self.s is not None:
            check.positive("s", self.s)
        else:
            self._goal()
        if self.statistics not in ("averaged", "batch"):
            raise ValueError(f"statistics must be averaged or batch, got {self.statistics!r}.")
        if self.variances not in ("separate", "shared", "zero"):
            raise ValueError(f"variances must be separate, shared or zero, got {self.variances!r}.")

    @property
    @override
    def strength(self) -> str:
        name = next(name for name in ("s", *_GOALS) if getattr(self, name) is not None)
        chosen = f"{name}={getattr(self, name):g}"
        if self.statistics != "averaged":
            chosen += f", {self.statistics} statistics"
        if self.variances != "separate":
            chosen += f", {self.variances} variances"
        return chosen

    @property
    @override
    def simulation_only(self) -> bool:
        return self.statistics == "batch"

    @property
    @override
    def guarantee_depends_on_state(self) -> bool:
        return True

    def share_statistics(self, group: distributed.ProcessGroup | None = None) -> None:
        """From now on describe the classes by the rows of all ranks of a group together.

        For data-parallel training inside the label party: each rank perturbs its own rows, with
        the noise of the whole batch. ``perturb`` and ``prime`` become collective calls. Each
        rank's gradient is that of the mean loss over its own rows.

        Args:
            group: ranks that share a batch; by default all.

        Raises:
            RuntimeError: torch.distributed was not initialised.
        """
        distributed.get_world_size(group)
        self._memory.share(group)

    @override
    def prime(self, gradient: Tensor, labels: Tensor) -> None:
        """Seed the averages with the weight of one row for each class; ``batch`` needs no seed.

        Args:
            gradient: gradients of both labels, shape ``(examples, width)``.
            labels: the labels they belong to, shape ``(examples,)``.

        Raises:
            ValueError: a shape or a label is wrong.
            ProtectionError: NaN or infinity in the gradient.
        """
        check_batch(gradient, labels)
        self._memory.averages.prime(self._memory.gather(_per_example(gradient, labels)))

    @override
    def perturb(self, gradient: Tensor, labels: Tensor, *, noise: NoiseSource) -> Tensor:
        check.matrix("gradient", gradient)
        check.binary_labels("labels", labels, examples=gradient.shape[0])
        largest = gradient.abs().amax(dim=1)
        # One number instead of one for each value: NaN and infinity pass through a sum.
        if not math.isfinite(largest.sum().item()):
            require_finite(gradient, "the gradient before protection")
        moments = self._memory.gather(_per_example(gradient, labels))
        sizes = self._memory.gather(sizes_of(largest.double() * gradient.shape[0], labels))
        statistics = self._describe(moments, sizes).in_units(1 / gradient.shape[0])
        variances = self._optimise(statistics)
        if max(variances.along_pos, variances.along_neg) == 0:
            _require_equal_rows(gradient)
        perturbed = _add_noise(gradient, labels, largest == 0, statistics, variances, noise)
        if not math.isfinite(perturbed.sum().item()):
            require_finite(perturbed, "the gradient after marvell noise")
        self._remember(statistics, variances)
        return perturbed

    @override
    def state(self) -> dict[str, Tensor]:
        kept = self._memory.averages.state()
        if self._memory.largest_sum_kl is not None:
            kept[_LARGEST] = torch.tensor([self._memory.largest_sum_kl], dtype=torch.float64)
        return kept

    @override
    def restore(self, state: Mapping[str, Tensor]) -> None:
        kept = dict(state)
        largest = kept.pop(_LARGEST, None)
        self._memory.largest_sum_kl = None if largest is None else float(largest)
        self._memory.averages.restore(kept)

    @override
    def guarantee(self, releases: int) -> Guarantee:
        r"""The bound that the sumKL of so many releases allows, if the model were true.

        Divergences of independent releases add, so the largest sumKL of any batch so far stands
        for each release; under a goal, the goal where it is larger. Before the first batch, ``s``
        alone fixes a sumKL only for classes without spread, where it is at most 1 / s.
        """
        check.at_least("releases", releases, 0)
        grounds = (
            "Holds only if gradients of a class were isotropic Gaussian, and alike from batch to "
            "batch up to jumps of one scale for both classes: a factor on one class (pos_weight, "
            "class weights, focal loss) that changes during the training is not followed where a "
            "class has fewer than 30 rows in a batch; sumKL of releases adds"
        )
        each = self._memory.largest_sum_kl
        if self.s is None:
            each = max(self._goal(), each or 0.0)
        elif each is None:
            each = 1 / self.s
            grounds += ", taken as 1/s before the first batch, which needs classes without spread"
        total = releases * each if releases else 0.0
        return Guarantee("model", leak_auc_bound(total), releases, f"{grounds}.")

    def _goal(self) -> float:
        """The sumKL of one release that the goal allows."""
        return goal_sum_kl(
            max_sum_kl=self.max_sum_kl, max_leak_auc=self.max_leak_auc, min_error=self.min_error
        )

    def _describe(self, moments: Moments, sizes: Moments) -> BatchStatistics:
        """Class statistics for this batch."""
        if self.statistics == "batch":
            return BatchStatistics.plain(moments)
        return self._memory.averages.observe(moments, sizes)

    def _optimise(self, statistics: BatchStatistics) -> MarvellNoise:
        """The four noise variances for these statistics."""
        model = statistics
        if self.variances == "shared":
            mean = (statistics.variance_pos + statistics.variance_neg) / 2
            model = replace(statistics, variance_pos=mean, variance_neg=mean)
        elif self.variances == "zero":
            model = replace(statistics, variance_pos=0.0, variance_neg=0.0)
        problem = {
            "variance_pos": model.variance_pos,
            "variance_neg": model.variance_neg,
            "gap_squared": model.gap_squared,
            "positive_share": model.positive_share,
        }
        if self.s is not None:
            power = self.s * model.gap_squared
        else:
            needed = power_for(**problem, width=model.width, max_sum_kl=self._goal())
            power = max(needed, _WEAKEST * model.gap_squared)
        return solve_marvell(**problem, width=model.width, power=power)

    def _remember(self, statistics: BatchStatistics, noise: MarvellNoise) -> None:
        """Keep the largest sumKL of any release, by the variances as measured."""
        reached = sum_kl(
            noise,
            variance_pos=statistics.variance_pos,
            variance_neg=statistics.variance_neg,
            gap_squared=statistics.gap_squared,
            width=statistics.width,
        )
        self._memory.largest_sum_kl = max(reached, self._memory.largest_sum_kl or 0.0)


def _per_example(gradient: Tensor, labels: Tensor) -> Moments:
    """Moments of the examples' own gradients: those of the mean loss, times the number of rows.

    Batches of different sizes can be averaged only in this unit: in a short last batch every row
    of the mean loss is longer.
    """
    rows = gradient.shape[0]
    positives, negatives = (moments.in_units(rows) for moments in class_moments(gradient, labels))
    return positives, negatives


def _add_noise(
    gradient: Tensor,
    labels: Tensor,
    is_zero: Tensor,
    statistics: BatchStatistics,
    variances: MarvellNoise,
    source: NoiseSource,
) -> Tensor:
    """Draw for every row alike and scale by class: the work must not depend on the labels."""
    direction = _direction(statistics.mean_gap)
    along = _deviations(variances.along_neg, variances.along_pos, gradient)
    across = _deviations(variances.across_neg, variances.across_pos, gradient)
    row_class = (labels == 1).to(device=gradient.device, dtype=torch.int64)
    # Zeros stay recognisable zeros where their own class gets no noise.
    bare = is_zero & (along[row_class] == 0)
    row_class = torch.where(bare, 1 - row_class, row_class)
    across_row = across[row_class][:, None]
    stretch_row = along[row_class] - across_row[:, 0]
    perturbed = torch.empty_like(gradient)
    for clean, deviation, stretch, sent in in_row_blocks(
        gradient, across_row, stretch_row, perturbed
    ):
        draw = source.normal_like(clean)
        on_line = stretch * (draw @ direction)
        torch.addcmul(clean.double(), deviation, draw, out=draw)
        sent.copy_(draw.addr_(on_line, direction))
    return perturbed


def _deviations(of_negatives: float, of_positives: float, like: Tensor) -> Tensor:
    """Standard deviations by class, in label order."""
    pair = [math.sqrt(of_negatives), math.sqrt(of_positives)]
    return torch.tensor(pair, dtype=torch.float64, device=like.device)


def _direction(gap: Tensor) -> Tensor:
    """Unit vector along the gap; the first axis where the class means coincide."""
    largest = gap.abs().max()
    if largest == 0:
        first = torch.zeros_like(gap)
        first[0] = 1.0
        return first
    scaled = gap / largest  # so that no square underflows
    return scaled / torch.linalg.vector_norm(scaled)


def _require_equal_rows(gradient: Tensor) -> None:
    """Without any noise, only rows that are all the same may leave."""
    if bool((gradient != gradient[0]).any()):
        raise ProtectionError(
            "label party: the classes have the same mean gradient, so Marvell has no direction to "
            "hide and would send rows that differ without noise. Nothing was sent. Use "
            "statistics='averaged', or another protection."
        )
