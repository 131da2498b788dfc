"""The audit of a training loop of one's own: from releases and labels to what attacks reached."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from torch import Tensor

from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.leak_audit import LeakAudit, OnRelease, audit_leak
from cutlayer.audits.one_thread import one_thread
from cutlayer.audits.scope import FULL_SCOPE, AnyAttack, AuditScope
from cutlayer.transcript.release import Release

QUICK_SCOPE = replace(FULL_SCOPE, expensive=False)
"""Every attack but those that train a network for each release, which take minutes."""


def audit(
    releases: Iterable[Release],
    labels: Tensor,
    *,
    canaries: Tensor | None = None,
    attacks: Mapping[str, AnyAttack] | None = None,
    scope: AuditScope = QUICK_SCOPE,
    on_release: OnRelease | None = None,
) -> LeakAudit:
    """Measure how well every attack reads the labels from what the non-label party received.

    Keep one :class:`~cutlayer.transcript.release.Release` for each step of the training: which
    records it had, the activation that was sent and the gradient that came back, perturbed as it
    was. Run this where the labels may be; scores and labels meet nowhere else.

    Args:
        releases: in the order of sending; a list, or a
            :class:`~cutlayer.transcript.folder.Transcript` that is larger than the memory.
        labels: 0 or 1 by record, -1 where unknown, shape ``(records,)``; ``Release.records`` are
            positions in it.
        canaries: which records had an independent coin for a label, bool, shape ``(records,)``.
            Leak AUCs then cover these records alone.
        attacks: which attacks to run, by name; ``None`` for all that ``scope`` allows.
        scope: how much the attackers know and how often they try; ``FULL_SCOPE`` of
            :mod:`cutlayer.audits.scope` also runs the attacks that train a network, which take
            minutes. Attacks work on small tensors, so torch uses one thread meanwhile.
        on_release: told how many releases are done.

    Returns:
        One measurement for each attack, layer and amount of side knowledge;
        :attr:`~cutlayer.audits.leak_audit.LeakAudit.worst` is the highest.

    Raises:
        ValueError: labels are not 0, 1 or -1; releases are out of order or name a record without
            a label; a gradient is not finite.

    Source: leak AUC of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_.
    """
    truth = GroundTruth(labels, canaries)
    with one_thread():
        return audit_leak(releases, truth, attacks=attacks, scope=scope, on_release=on_release)
