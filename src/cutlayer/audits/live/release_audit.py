"""The release audit: one of every k messages is attacked in full, and nothing is recorded."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks import Attack
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.hints import Hint, pick_hint
from cutlayer.audits.leak_audit import LeakAudit, LeakAuditor
from cutlayer.audits.scope import AuditScope
from cutlayer.transcript.release import Release

_USUAL_SPACING, _LEAST = 50, 20


def usual_spacing(messages: int) -> int:
    """One of every so many messages is attacked where nobody chose: 2 % of them, or 20.

    Attacking all of them takes several times as long as the training itself.

    Args:
        messages: of the whole training, at least 1.

    >>> usual_spacing(5000), usual_spacing(200), usual_spacing(15)
    (50, 10, 1)
    """
    return max(1, min(_USUAL_SPACING, messages // _LEAST))


class ReleaseAudit:
    """Observes a training at the label party, and keeps scores by record instead of messages.

    Its work is part of a reply's time. So where a message has no usable positive, or one class
    only, attacks with at most one hint run all the same, and what they reach is thrown away.

    Of a training that was gone on with it sees the rest, and with ``every`` above 1 a part. What is
    read after so many epochs is then not measured, since nobody knows what the other messages
    would have added.

    Which message of ``every`` is attacked is drawn when they begin, so that a peer who knows this
    code cannot behave well on the audited ones alone. It does not depend on labels.

    Args:
        labels: training labels by record, 0 or 1, shape ``(records,)``.
        generator: picks the messages and the hints; keep it apart from every other purpose, and
            seed it secretly where a peer must not foresee the messages.
        every: attack one of so many messages.
        attacks: which attacks to run, by name; ``None`` for the cheap ones with at most one hint.

    Raises:
        ValueError: ``every`` is below 1, or a label is neither 0 nor 1.
    """

    def __init__(
        self,
        labels: Tensor,
        *,
        generator: torch.Generator,
        every: int = 1,
        attacks: Mapping[str, Attack] | None = None,
    ) -> None:
        check.at_least("every", every, 1)
        self._truth, self._attacks = GroundTruth(labels), attacks
        self._auditor = self._begun(whole=every == 1)
        self._has_seen = False
        self._generator, self._every = generator, every
        self._due: dict[int, int] = {}

    def on_release(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Attack the release if its step is due."""
        if not self._is_due(release.step):
            return
        if not self._has_seen and release.step:
            self._auditor = self._begun(whole=False)
        self._has_seen = True
        hint: Hint | None = pick_hint(
            release.records, labels, clean_gradient, generator=self._generator
        )
        self._auditor.observe(release, hint)

    def result(self) -> LeakAudit:
        """What the attacks reached so far."""
        return self._auditor.result()

    def _is_due(self, step: int) -> bool:
        """Whether this is the step that was drawn among its neighbours."""
        if self._every == 1:
            return True
        block, place = divmod(step, self._every)
        if block not in self._due:
            # Of a start in the middle of a block only the rest of it is seen.
            drawn = int(torch.randint(place, self._every, (), generator=self._generator))
            self._due = {block: drawn}  # steps only rise
        return self._due[block] == place

    def _begun(self, *, whole: bool) -> LeakAuditor:
        """An auditor that has seen nothing yet, and will see each message of each epoch or not."""
        scope = AuditScope() if whole else replace(AuditScope(), after=())
        return LeakAuditor(self._truth, attacks=self._attacks, scope=scope, constant_time=True)
