"""The learned adversary over whole histories: told half of the labels. An upper reference."""

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.attacks.base import WITHHELD, Attack, SideKnowledge
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.gradient_shape import energy_bands
from cutlayer.attacks.history import History, Projection, RecordMeans, root_mean_square_norm
from cutlayer.attacks.learned_adversary import check_known_labels
from cutlayer.attacks.max_norm_line import MaxNormLine
from cutlayer.attacks.scale import at_unit_scale, standard_columns
from cutlayer.attacks.score_histories import AveragedAttack
from cutlayer.attacks.small_network import learned_scores
from cutlayer.attacks.visit_differences import VisitDifferences
from cutlayer.transcript.release import Release

_COORDINATES = 16


class LearnedHistory(History):
    r"""A small network on what all visits of a record tell, fitted to records with known labels.

    For each record it sees: the mean over visits of at most 16 coordinates of its gradient (in
    units of the batch's root mean squared norm) and of the logs of its energy in bands; its
    place on the line of gradients as :class:`~cutlayer.attacks.max_norm_line.MaxNormLine`
    estimates it; the averaged first component, of its gradients and of the differences between
    visits. Gradients alone are read.

    Judge it on records whose labels it was not told: it scores no other. Memory: at most 80
    numbers a record.

    Source: cutlayer's own.
    """

    def __init__(self, records: int, seed: int = 0) -> None:
        self._seed = seed
        self._project = Projection(_COORDINATES, seed)
        self._means = RecordMeans(records)
        self._parts: tuple[History, ...] = (
            AveragedAttack(Attack(first_component, oriented=False), records),
            MaxNormLine(records),
            VisitDifferences(records, seed),
        )

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        check.finite("gradient", release.gradient)
        batch = at_unit_scale(release.gradient).cpu()
        rows = self._project(batch / root_mean_square_norm(batch))
        self._means.add(release.records, torch.cat([rows, energy_bands(batch)], dim=1))
        for part in self._parts:
            part.observe(release, knowledge)

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        means, seen = self._means.means(), self._means.visits > 0
        scores = torch.full((len(seen),), torch.nan, dtype=torch.float64)
        if knowledge.known_labels is None or not bool(seen.any()):
            return scores
        labels = check_known_labels(knowledge.known_labels, len(seen)).cpu()
        columns = [means, *(part.scores(SideKnowledge())[:, None] for part in self._parts)]
        features = torch.cat(columns, dim=1)[seen].nan_to_num(0.0)  # no difference in one visit
        known = labels[seen] != WITHHELD
        scores[seen] = learned_scores(
            standard_columns(features),
            known,
            labels[seen],
            generator=torch.Generator().manual_seed(self._seed),
        )
        scores[labels != WITHHELD] = torch.nan
        return scores
