"""The visit-difference attack: noise that stays the same at each visit cancels between two."""

from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.attacks.base import SideKnowledge
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.history import History, Projection, RecordMeans, check_positions
from cutlayer.attacks.visit_average import VisitAverage
from cutlayer.transcript.release import Release

_KEPT_COORDINATES = 32


class VisitDifferences(History):
    r"""The first component of what changed since a record's earlier visits, averaged over visits.

    Noise :math:`n_r` that is drawn once for a record and added to each of its gradients does not
    average out, but it is the same in all visits and cancels from

    .. math:: \tilde g_{r,t} - \operatorname{mean}_{t' < t} \tilde g_{r,t'}
              = \rho_{r,t} w_t - \operatorname{mean}_{t' < t} \rho_{r,t'} w_{t'}

    with residual :math:`\rho` and the top's slope w. The mean of all earlier visits is nearly the
    same mixture of slopes for all records of a batch, which the last visit is not. While the top
    learns, w changes for all records alike and :math:`\rho` keeps the sign of (prediction -
    label), so the side of a difference along the batch's first component tells the label. It is
    the attack on memoised noise in *gradients*; noise on the residual itself that is memoised
    leaves only changes of the prediction, which depend on the noisy label alone. Fresh noise it
    makes larger.

    Memory: at most 32 coordinates of the mean gradient of each record, and three numbers. Wider
    gradients go through a fixed random projection.

    Source: cutlayer's own.
    """

    def __init__(self, records: int, seed: int = 0) -> None:
        self._project = Projection(_KEPT_COORDINATES, seed)
        self._average = VisitAverage(records, oriented=False)
        self._earlier = RecordMeans(records)

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        check.finite("gradient", release.gradient)
        records = release.records.cpu()
        check_positions(records, len(self._earlier.visits))
        rows = self._project(release.gradient.detach().cpu().double())
        earlier = self._earlier.visits[records] > 0
        if bool(earlier.any()):
            again = records[earlier]
            change = rows[earlier] - self._earlier.means(again)
            self._average.add(again, first_component(change))
        self._earlier.add(records, rows)

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        return self._average.mean()
