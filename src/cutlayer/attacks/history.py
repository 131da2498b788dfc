"""Attacks on a whole training: what an attacker keeps of each record, and how it is scored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.base import SIDE_KNOWLEDGE, Cost, SideKnowledge, needs_in_words
from cutlayer.transcript.release import Release


class History(ABC):
    """What one attacker keeps while the releases of one training pass by, in order and once.

    It holds some numbers for each record and never a release, so that its memory does not grow
    with the number of steps.
    """

    @abstractmethod
    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        """Take in one release.

        Args:
            release: steps must grow.
            knowledge: what the attacker knows of its rows.

        Raises:
            ValueError: the release is not finite, or a record does not exist.
        """

    @abstractmethod
    def scores(self, knowledge: SideKnowledge) -> Tensor:
        """Score every record; more releases may follow.

        Args:
            knowledge: what the attacker knows of the records; ``known_labels`` is by record.

        Returns:
            Scores, float64, shape ``(records,)``; higher means "more likely positive". NaN for a
            record that was never visited, or whose label was given away.
        """


@dataclass(frozen=True)
class HistoryAttack:
    """An attack that scores records from a whole training, and what it may know.

    The attacker is handed what is declared here and nothing else: :class:`HistoryRun` takes all
    other knowledge away before it reaches the :class:`History`.

    Raises:
        ValueError: a name is none of :data:`~cutlayer.attacks.base.SIDE_KNOWLEDGE`.
    """

    begin: Callable[[int, int], History]
    """Makes an empty history for so many records; the second number is a seed."""
    during: tuple[str, ...] = ()
    """Side knowledge that it takes with every release."""
    after: tuple[str, ...] = ()
    """Side knowledge by record that it takes once, at the end."""
    family: str = "own"
    """What it goes by, as for :class:`~cutlayer.attacks.base.Attack`."""
    published: str = ""
    """Where it was published and under which name, for a report."""
    cost: Cost = "cheap"
    """``cheap``: milliseconds for a release, and no training of a model at the end."""
    reads: tuple[str, ...] = ("gradient",)
    """Which messages it reads, as :attr:`~cutlayer.attacks.base.Attack.reads`."""
    average_of: str | None = None
    """Name of the attack on one release whose scores are averaged, where that is all."""

    def __post_init__(self) -> None:
        for name in self.during + self.after:
            if name not in SIDE_KNOWLEDGE:
                raise ValueError(
                    f"A history attack may know {', '.join(SIDE_KNOWLEDGE)}, got {name!r}."
                )

    @property
    def side_knowledge(self) -> tuple[str, ...]:
        """What the attacker must know beyond the messages; empty for some attacks."""
        return tuple(dict.fromkeys(self.during + self.after))

    @property
    def needs(self) -> str:
        """The same in words, for a report."""
        return needs_in_words(self.side_knowledge)

    def start(self, records: int, *, seed: int = 0) -> "HistoryRun":
        """Begin an attack on a training of so many records.

        Raises:
            ValueError: ``records`` is below 1.
        """
        check.at_least("records", records, 1)
        return HistoryRun(self, records, seed)


class HistoryRun:
    """One history attack under way."""

    def __init__(self, attack: HistoryAttack, records: int, seed: int) -> None:
        self.attack = attack
        self._records = records
        self._history = attack.begin(records, seed)

    def missing(self, knowledge: SideKnowledge) -> tuple[str, ...]:
        """What a release must come with and does not; empty where :meth:`observe` can run."""
        return _missing(self.attack.during, knowledge)

    def observe(self, release: Release, knowledge: SideKnowledge | None = None) -> None:
        """Take in one release.

        Raises:
            ValueError: knowledge that the attack needs with every release is missing, the release
                is not finite, or a record does not exist.
        """
        self._history.observe(release, _only(self.attack.during, knowledge))

    def scores(self, knowledge: SideKnowledge | None = None) -> Tensor:
        """Score every record.

        Args:
            knowledge: by record: ``known_labels`` has shape ``(records,)``.

        Returns:
            Scores, float64, shape ``(records,)``; NaN for a record that was never visited or
            whose label was given to the attack.

        Raises:
            ValueError: knowledge that the attack needs at the end is missing, or its shape is
                another.
        """
        allowed = _only(self.attack.after, knowledge)
        if allowed.known_labels is not None:
            check.shape("known_labels", allowed.known_labels, (self._records,))
        scores = self._history.scores(allowed)
        check.shape("scores", scores, (self._records,))
        return scores


def score_history(
    attack: HistoryAttack,
    releases: Sequence[Release],
    records: int,
    knowledge: SideKnowledge | None = None,
    *,
    seed: int = 0,
) -> Tensor:
    """Run one history attack alone over releases, with the same knowledge for all of them.

    Returns:
        Scores as :meth:`HistoryRun.scores`.

    Raises:
        ValueError: as :class:`HistoryRun`.
    """
    run = attack.start(records, seed=seed)
    for release in releases:
        run.observe(release, knowledge)
    return run.scores(knowledge)


def _missing(names: tuple[str, ...], knowledge: SideKnowledge | None) -> tuple[str, ...]:
    """Names of what is not known."""
    held = SideKnowledge() if knowledge is None else knowledge
    return tuple(name for name in names if getattr(held, name) is None)


def _only(names: tuple[str, ...], knowledge: SideKnowledge | None) -> SideKnowledge:
    """The declared part of some knowledge."""
    missing = _missing(names, knowledge)
    if missing:
        raise ValueError(f"The attack needs {SIDE_KNOWLEDGE[missing[0]]}: {missing[0]} is not set.")
    declared: Mapping[str, object] = {
        field.name: getattr(knowledge, field.name)
        for field in fields(SideKnowledge)
        if field.name in names
    }
    return SideKnowledge(**declared)  # type: ignore[arg-type]


class RecordMeans:
    """Running means of some numbers for each record, float64 ``(records, columns)``."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._total: Tensor | None = None
        self.visits = torch.zeros(records, dtype=torch.int32)

    def add(self, records: Tensor, values: Tensor) -> None:
        """Take in one row for each of these records.

        Raises:
            ValueError: a record does not exist or stands there twice, or the number of columns
                changed.
        """
        records, values = records.cpu(), values.detach().cpu().double()
        check_positions(records, self._records)
        if self._total is None:
            self._total = torch.zeros(self._records, values.shape[1], dtype=torch.float64)
        check.shape("values", values, (len(records), self._total.shape[1]))
        self._total[records] += values
        self.visits[records] += 1

    def means(self, records: Tensor | slice = slice(None)) -> Tensor:
        """Means of each record; NaN without a visit, and no column before the first release."""
        visits = self.visits[records][:, None]
        if self._total is None:
            return torch.full((len(visits), 0), torch.nan, dtype=torch.float64)
        return self._total[records] / visits


class Projection:
    """Keeps at most so many coordinates of wide rows: a fixed random orthonormal projection."""

    def __init__(self, limit: int, seed: int) -> None:
        self._limit, self._seed = limit, seed
        self._basis: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows themselves if they are narrow enough, else ``limit`` coordinates of them."""
        width = rows.shape[1]
        if width <= self._limit:
            return rows
        if self._basis is None or self._basis.shape[0] != width:
            generator = torch.Generator().manual_seed(self._seed)
            normal = torch.randn(width, self._limit, generator=generator, dtype=torch.float64)
            self._basis = torch.linalg.qr(normal)[0]
        return rows @ self._basis.to(rows)


def check_positions(records: Tensor, count: int) -> None:
    """Refuse positions that do not exist or that stand in the batch twice.

    Raises:
        ValueError: they do.
    """
    if records.numel() and not 0 <= int(records.min()) <= int(records.max()) < count:
        raise ValueError(
            f"records must lie in 0 to {count - 1}, got {int(records.min())} "
            f"to {int(records.max())}."
        )
    if len(torch.unique(records)) < len(records):
        raise ValueError("records must stand in a batch at most once, got one twice.")


def root_mean_square_norm(batch: Tensor) -> Tensor:
    """Square root of the mean squared row norm of a batch at unit scale; 1 where all are zero."""
    level = batch.square().sum(dim=1).mean().sqrt()
    return torch.where(level > 0, level, 1.0)
