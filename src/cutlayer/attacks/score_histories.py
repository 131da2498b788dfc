"""Histories of one attack's scores: their average over visits, and their plain sum."""

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer.attacks.base import Attack, SideKnowledge
from cutlayer.attacks.history import History, RecordMeans
from cutlayer.attacks.visit_average import VisitAverage
from cutlayer.transcript.release import Release


class AveragedAttack(History):
    """The mean over visits of an attack's scores, standardised in each batch and aligned.

    See :class:`~cutlayer.attacks.visit_average.VisitAverage` for the formula. Memory: two numbers
    a record.
    """

    def __init__(self, attack: Attack, records: int, seed: int = 0) -> None:
        self._attack, self._seed = attack, seed
        self._average = VisitAverage(records, oriented=attack.oriented)

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        scores = self._attack.score(release, knowledge, seed=self._seed)
        self._average.add(release.records, scores)

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        return self._average.mean()


class SummedAttack(History):
    r"""The sum over visits of an attack's scores as they are, :math:`S_r = \sum_t s_{r,t}`.

    Right where scores are log likelihood ratios and releases are independent given the label: the
    sum is then the log likelihood ratio of all of them. Memory: two numbers a record.
    """

    def __init__(self, attack: Attack, records: int, seed: int = 0) -> None:
        self._attack, self._seed = attack, seed
        self._means = RecordMeans(records)

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        scores = self._attack.score(release, knowledge, seed=self._seed)
        self._means.add(release.records, scores[:, None])

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        means, visits = self._means.means(), self._means.visits
        if means.shape[1] == 0:
            return torch.full((len(visits),), torch.nan, dtype=torch.float64)
        return means[:, 0] * visits
