"""The steady-line attack: gradients keep to a line that turns slowly from step to step."""

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.attacks.base import SideKnowledge
from cutlayer.attacks.first_component import strongest_direction
from cutlayer.attacks.history import (
    History,
    Projection,
    RecordMeans,
    check_positions,
    root_mean_square_norm,
)
from cutlayer.attacks.scale import at_unit_scale
from cutlayer.attacks.visit_average import standardised
from cutlayer.transcript.release import Release

_KEPT_COORDINATES = 64
_KEPT_SHARE = 0.8


class SteadyLine(History):
    r"""Average over visits of each record's place on a line that is followed from step to step.

    With the batch's rows g in units of their root mean squared norm,

    .. math:: C_t = 0.8\, C_{t-1} + 0.2\, \operatorname{mean}_j g_j g_j^\top, \qquad
              v_t = \text{first eigenvector of } C_t, \quad \langle v_t, v_{t-1} \rangle \ge 0,

    and a record's score is the mean over visits of :math:`\langle g, v_t \rangle`, standardised in
    each batch. The line is the slope of the top, which changes little in a step, however strong
    the noise along it is. So batches are aligned by their line, where
    :class:`~cutlayer.attacks.visit_average.VisitAverage` aligns them by what records scored
    before; under strong noise the latter is a coin toss and the former is not. Without any hint
    this comes close to the likelihood ratio of all releases; the whole may be turned round, once.

    Memory: two numbers a record and a matrix of at most 64 coordinates; wider rows go through a
    fixed random projection.

    Source: cutlayer's own.
    """

    def __init__(self, records: int, seed: int = 0) -> None:
        self._project = Projection(_KEPT_COORDINATES, seed)
        self._places = RecordMeans(records)
        self._moments: Tensor | None = None
        self._line: Tensor | None = None

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        check.finite("gradient", release.gradient)
        records = release.records.cpu()
        check_positions(records, len(self._places.visits))
        rows = self._project(at_unit_scale(release.gradient).cpu())
        rows = rows / root_mean_square_norm(rows)
        moments = rows.T @ rows / len(rows)
        if self._moments is not None:
            moments = _KEPT_SHARE * self._moments + (1 - _KEPT_SHARE) * moments
        line = strongest_direction(moments)
        if self._line is not None and float(line @ self._line) < 0:
            line = -line
        self._moments, self._line = moments, line
        self._places.add(records, standardised(rows @ line)[:, None])

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        places = self._places.means()
        if places.shape[1] == 0:
            return torch.full((len(places),), torch.nan, dtype=torch.float64)
        return places[:, 0]
