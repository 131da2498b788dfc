"""The live audit: how much the outgoing batches leak, while the training runs."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks import ATTACKS, Attack, SideKnowledge
from cutlayer.audits.constant_time import both_classes, stand_in_hint
from cutlayer.audits.hints import Hint, pick_hint
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from cutlayer.transcript.release import Release

LIVE_EVERY = 50
"""By default every so many-th batch is attacked; see ``benchmarks/live_audit.py``."""

LIVE_ATTACKS = ("norm", "cosine", "tail_energy", "first_component")
"""Cheap, and together they see what breaks each gradient protection in one release."""


@dataclass(frozen=True)
class LiveReading:
    """What one batch told."""

    step: int
    attack: str
    """The worst of the attacks."""
    leak_auc: float
    """Its symmetrised leak AUC on this batch."""
    median: float
    """Median of the worst over the last batches."""
    batches: int
    """How many the median covers."""


Listener = Callable[[LiveReading], None]


class LiveLeak:
    """Attacks every k-th outgoing batch and keeps the median of the worst leak for a progress line.

    Runs at the label party, where alone labels and scores may meet. By itself it never stops a
    training: a moment of stopping that depends on labels would leak by itself.

    Args:
        attacks: cheap ones, by name; those with a hint get one clean gradient of the batch.
        generator: picks the hints; keep it apart from every other purpose.
        every: attack the steps that this number divides.
        window: over how many attacked batches the median runs.
        listeners: are told each reading once its reply has left, and the one before again where a
            batch that is due gives none.
        stop: is told each reading before its reply leaves, and may raise to keep that back.

    Raises:
        ValueError: there are no attacks, or ``every`` or ``window`` is below 1.
    """

    def __init__(
        self,
        attacks: Mapping[str, Attack],
        *,
        generator: torch.Generator,
        every: int = LIVE_EVERY,
        window: int = 100,
        listeners: Sequence[Listener] = (),
        stop: Listener | None = None,
    ) -> None:
        check.at_least("number of attacks", len(attacks), 1)
        check.at_least("every", every, 1)
        check.at_least("window", window, 1)
        self._attacks = dict(attacks)
        self._generator = generator
        self._every = every
        self._worst: deque[float] = deque(maxlen=window)
        self._listeners, self._stop = tuple(listeners), stop
        self._reading: LiveReading | None = None
        self._is_untold = False

    @property
    def leak_auc(self) -> float | None:
        """Median over the window of the worst symmetrised leak AUC; ``None`` before the first."""
        return median(self._worst) if self._worst else None

    @property
    def batches(self) -> int:
        """How many batches the median covers, at most the window."""
        return len(self._worst)

    def on_release(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Attack the batch if its step is due.

        A batch with one class has no AUC: it is attacked all the same, so that the time does not
        tell, and gives no reading. What listeners do takes a time that depends on labels, so they
        are told by :meth:`on_progress`.

        Args:
            release: what was sent, or is about to be.
            labels: the batch's labels, 0 or 1, shape ``(examples,)``.
            clean_gradient: the gradient before the protection, shape ``(examples, width)``.

        Raises:
            ValueError: shapes differ, or a gradient is not finite.
            LeakStopError: ``stop`` has raised it.
        """
        check.shape("labels", labels, (len(release.records),))
        if release.step % self._every:
            return
        check.binary_labels("labels", labels, examples=len(release.records))
        hint = pick_hint(release.records, labels, clean_gradient, generator=self._generator)
        told = hint or stand_in_hint(release)
        leaks = {}
        for name, attack in self._attacks.items():
            leak, defined = _leak(attack, release, labels, told)
            if defined and (hint is not None or "hint" not in attack.side_knowledge):
                leaks[name] = leak
        if leaks:
            worst = max(leaks, key=leaks.__getitem__)
            self._worst.append(leaks[worst])
            self._reading = LiveReading(
                release.step, worst, leaks[worst], median(self._worst), len(self._worst)
            )
        self._is_untold = self._reading is not None
        if self._stop is not None and self._reading is not None:
            self._stop(self._reading)

    def on_progress(self, step: int, steps: int, rows: int) -> None:  # noqa: ARG002
        """The reply has left: tell the listeners what its batch gave."""
        self.tell_listeners()

    def tell_listeners(self) -> None:
        """Tell the newest reading, unless that was done; also for a training that ends by it."""
        if self._is_untold and self._reading is not None:
            self._is_untold = False
            for listener in self._listeners:
                listener(self._reading)


def live_attacks() -> dict[str, Attack]:
    """The attacks of a live audit, by name."""
    return {name: ATTACKS[name] for name in LIVE_ATTACKS}


def _leak(attack: Attack, release: Release, labels: Tensor, hint: Hint) -> tuple[float, bool]:
    """Symmetrised leak AUC of one attack, and whether labels of both classes gave it one."""
    others = torch.ones_like(labels, dtype=torch.bool)
    if "hint" in attack.side_knowledge:
        others = release.records != hint.record
    seen = labels[others]
    if len(seen) < 2:
        return 0.5, False
    compared, defined = both_classes(seen)
    scores = attack.score(release, SideKnowledge(hint=hint.gradient))
    return symmetrised(leak_auc(scores[others], compared)), defined
