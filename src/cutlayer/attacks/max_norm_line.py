"""The max_norm-adaptive attack: the most likely place of each record on the line of gradients."""

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.attacks.base import SideKnowledge
from cutlayer.attacks.first_component import strongest_direction
from cutlayer.attacks.history import History, RecordMeans, root_mean_square_norm
from cutlayer.attacks.scale import at_unit_scale
from cutlayer.attacks.visit_average import VisitAverage, standardised
from cutlayer.transcript.release import Release

_HALVINGS = 60


class MaxNormLine(History):
    r"""Estimate of each record's own gradient, in units of the longest, under max_norm's noise.

    The protection stretches a gradient of coordinate r (in units of the batch's longest norm)
    along itself until its mean square is 1: it sends :math:`c \sim N(r, 1 - r^2)`. One release
    tells the side of r with chance :math:`\Phi(r / \sqrt{1 - r^2})`. Over visits the *variance*
    of c tells as well: it is small for long gradients. The estimate of maximum likelihood from
    the means :math:`m_1` of c and :math:`m_2` of :math:`c^2` over a record's visits is the root
    in [-1, 1] of

    .. math:: r^3 - m_1 r^2 + m_2 r - m_1 = 0

    (it is :math:`m_1` itself where :math:`m_2 = 1`). The line is the batch's first component, the
    unit the root of its mean squared norm, and each batch is turned to agree with earlier visits,
    as in :class:`~cutlayer.attacks.visit_average.VisitAverage`.

    Memory: five numbers a record.

    Source: cutlayer's own, against ``max_norm`` of `Li et al. (2022)
    <https://arxiv.org/abs/2102.08504>`_; the cubic is that of the correlation of two standard
    normals.
    """

    def __init__(self, records: int, _seed: int = 0) -> None:
        self._sides = VisitAverage(records, oriented=False)
        self._moments = RecordMeans(records)

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        check.finite("gradient", release.gradient)
        records = release.records.cpu()
        batch = at_unit_scale(release.gradient).cpu()
        place = batch @ strongest_direction(batch) / root_mean_square_norm(batch)
        if float(place.pow(3).sum()) < 0:
            place = -place
        standard = standardised(place)
        turned = self._sides.disagrees(records, standard)
        self._sides.add(records, place)
        place = -place if turned else place
        self._moments.add(records, torch.stack([place, place.square()], dim=1))

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        moments = self._moments.means()
        if moments.shape[1] == 0:
            return torch.full((len(moments),), torch.nan, dtype=torch.float64)
        return most_likely_place(moments[:, 0], moments[:, 1])


def most_likely_place(mean: Tensor, mean_square: Tensor) -> Tensor:
    """Root in [-1, 1] of the cubic of :class:`MaxNormLine`, ``(records,)``; NaN stays NaN.

    >>> most_likely_place(torch.tensor([0.5]).double(), torch.tensor([1.0]).double()).item()
    0.5
    """
    low, high = torch.full_like(mean, -1.0), torch.ones_like(mean)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        value = middle**3 - mean * middle**2 + mean_square * middle - mean
        low, high = torch.where(value < 0, middle, low), torch.where(value < 0, high, middle)
    return torch.where(mean.isnan(), mean, (low + high) / 2)
