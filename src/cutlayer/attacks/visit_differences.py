"""The visit-difference attack: noise that stays the same at each visit cancels between two."""

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.attacks.base import SideKnowledge
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.history import History, Projection, check_positions
from cutlayer.attacks.visit_average import VisitAverage
from cutlayer.transcript.release import Release

_KEPT_COORDINATES = 32


class VisitDifferences(History):
    r"""The first component of what changed since a record's last visit, averaged over visits.

    Noise :math:`n_r` that is drawn once for a record and added to each of its gradients does not
    average out, but it is the same in two visits:

    .. math:: \tilde g_{r,t} - \tilde g_{r,t'} = g_{r,t} - g_{r,t'}
              = \rho_{r,t} w_t - \rho_{r,t'} w_{t'}

    with residual :math:`\rho` and the top's slope w. While the top learns, w changes for all
    records alike and :math:`\rho` keeps the sign of (prediction - label), so the side of a
    difference along the batch's first component tells the label. It is the attack on memoised
    noise in *gradients*; noise on the residual itself that is memoised leaves only changes of the
    prediction, which depend on the noisy label alone. Fresh noise it makes larger.

    Memory: at most 32 coordinates of the last gradient of each record, and two numbers. Wider
    gradients go through a fixed random projection.

    Source: cutlayer's own.
    """

    def __init__(self, records: int, seed: int = 0) -> None:
        self._project = Projection(_KEPT_COORDINATES, seed)
        self._average = VisitAverage(records, oriented=False)
        self._last: Tensor | None = None
        self._seen = torch.zeros(records, dtype=torch.bool)

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        check.finite("gradient", release.gradient)
        records = release.records.cpu()
        check_positions(records, len(self._seen))
        rows = self._project(release.gradient.detach().cpu().double())
        if self._last is None:
            self._last = torch.zeros(len(self._seen), rows.shape[1], dtype=torch.float64)
        again = self._seen[records]
        if bool(again.any()):
            change = rows[again] - self._last[records[again]]
            self._average.add(records[again], first_component(change))
        self._last[records] = rows
        self._seen[records] = True

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        return self._average.mean()
