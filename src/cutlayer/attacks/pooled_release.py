"""The pooled release: one release with a row for each record, made from all of its visits."""

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.attacks.base import WITHHELD, Attack, SideKnowledge
from cutlayer.attacks.history import (
    History,
    Projection,
    RecordMeans,
    check_positions,
    root_mean_square_norm,
)
from cutlayer.attacks.learned_adversary import check_known_labels
from cutlayer.attacks.scale import at_unit_scale
from cutlayer.transcript.release import Release

_KEPT_COORDINATES = 32


class PooledRelease(History):
    r"""Runs an attack on one release once, on all records at the end of the training.

    The row of a record is the mean of its gradients, each in units of its batch's root mean
    squared norm, or the last of them (``gradient``); its activation is the last one, which the
    final bottom computed. So fresh noise in gradients is averaged before the attack and not after
    it, and attacks that train on activations, as model completion does after a training, see all
    records at once. Hints are the rows of records whose labels are known.

    Memory: at most 64 coordinates a record; wider rows go through a fixed random projection.
    """

    def __init__(
        self, attack: Attack, records: int, seed: int = 0, *, gradient: Literal["mean", "last"]
    ) -> None:
        self._attack, self._seed, self._gradient = attack, seed, gradient
        self._means = RecordMeans(records)
        self._last = {name: torch.empty(0) for name in attack.reads}
        self._project = {name: Projection(_KEPT_COORDINATES, seed) for name in attack.reads}

    @override
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        records = release.records.cpu()
        check_positions(records, len(self._means.visits))
        for name in self._attack.reads:
            values: Tensor = getattr(release, name)
            check.finite(name, values)
            batch = at_unit_scale(values).cpu()
            if name == "gradient":
                batch = batch / root_mean_square_norm(batch)
            rows = self._project[name](batch if name == "gradient" else values.cpu().double())
            if name == "gradient" and self._gradient == "mean":
                self._means.add(records, rows)
            else:
                self._keep(name, records, rows)
        if "gradient" not in self._attack.reads or self._gradient == "last":
            self._means.visits[records] += 1

    @override
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        scores = torch.full((len(self._means.visits),), torch.nan, dtype=torch.float64)
        seen = self._means.visits > 0
        if not bool(seen.any()):
            return scores
        rows = {
            name: self._means.means()
            if name == "gradient" and self._gradient == "mean"
            else self._last[name]
            for name in self._attack.reads
        }
        known = self._known(knowledge, seen)
        release, told = self._release(rows, seen), self._told(knowledge, rows, known, seen)
        scores[seen] = self._attack.score(release, told, seed=self._seed)
        scores[known] = torch.nan  # a label that was given away is not asked for
        return scores

    def _keep(self, name: str, records: Tensor, rows: Tensor) -> None:
        """Overwrite what the last visit left."""
        if self._last[name].numel() == 0:
            shape = (len(self._means.visits), rows.shape[1])
            self._last[name] = torch.zeros(shape, dtype=torch.float64)
        self._last[name][records] = rows

    def _known(self, knowledge: SideKnowledge, seen: Tensor) -> Tensor:
        """Which visited records have a known label, bool ``(records,)``."""
        if knowledge.known_labels is None:
            return torch.zeros_like(seen)
        labels = check_known_labels(knowledge.known_labels, len(seen))
        return seen & (labels.cpu() != WITHHELD)

    def _release(self, rows: dict[str, Tensor], seen: Tensor) -> Release:
        """All visited records as one release; a channel that is not read repeats the other."""
        first = next(iter(rows.values()))[seen]
        parts = {name: values[seen] for name, values in rows.items()}
        return Release(
            step=0,
            epoch=0,
            records=seen.nonzero()[:, 0],
            activation=parts.get("activation", first),
            gradient=parts.get("gradient", first),
        )

    def _told(
        self, knowledge: SideKnowledge, rows: dict[str, Tensor], known: Tensor, seen: Tensor
    ) -> SideKnowledge:
        """The same knowledge as the attack on one release takes it."""
        labels = knowledge.known_labels
        hints = None if labels is None else labels.cpu()[known]
        return SideKnowledge(
            hint_gradients=rows["gradient"][known] if "gradient" in rows else None,
            hint_activations=rows["activation"][known] if "activation" in rows else None,
            hint_labels=hints,
            prior=knowledge.prior,
            known_labels=None if labels is None else labels.cpu()[seen],
        )
