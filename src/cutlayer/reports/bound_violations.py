"""Leaks above a stated bound, in words: how sure they are, and what may explain them.

A proven bound limits what messages *add*. It is put to the test by canaries, whose coins no feature
can tell. On true labels an attack may read more, by chance or since features tell it anyway.
"""

from collections.abc import Sequence

from cutlayer.findings.document import FindingRow, KnowledgeBaseline
from cutlayer.reports.phrases import interval, number, over, who
from cutlayer.reports.summary import ProtectionSummary, Releases, above_bound

BOUND_MARK = "↑"
"""Follows a number that lies above the bound which is stated for as many releases."""


def reading(row: FindingRow) -> str:
    """A leak AUC, with its interval where there is one, as ``0.712 (95 %: 0.690 to 0.733)``."""
    if row.leak_auc_low is None or row.leak_auc_high is None:
        return number(row.leak_auc)
    return f"{number(row.leak_auc)} (95 %: {interval(row)})"


def within_chance(row: FindingRow) -> bool:
    """Whether the stated bound lies inside the interval of a leak above it."""
    stated = row.guarantee.leak_auc
    return (
        above_bound(row)
        and row.leak_auc_low is not None
        and stated is not None
        and row.leak_auc_low <= stated
    )


def beside_bound(row: FindingRow) -> str:
    """A leak AUC; where it lies above its bound, its interval, and whether that holds the bound."""
    if not above_bound(row) or row.leak_auc_low is None:
        return number(row.leak_auc)
    inside = ", with the bound inside" if within_chance(row) else ""
    return f"{number(row.leak_auc)} (95 %: {interval(row)}{inside})"


def worst_above(summary: ProtectionSummary) -> list[FindingRow]:
    """The strongest attack above its bound, in one release and over all."""
    both: tuple[Releases, ...] = ("one", "all")
    worst = (summary.worst(releases=releases) for releases in both)
    return [row for row in worst if row is not None and above_bound(row)]


def features_alone(summary: ProtectionSummary) -> KnowledgeBaseline | None:
    """The best classifier on the non-label party's own features, which reads no message."""
    known = [
        b
        for b in summary.baselines
        if b.name != "prior" and b.target == "labels" and b.leak_auc is not None
    ]
    return max(known, key=lambda b: b.leak_auc or 0.0, default=None)


def scope_of_proof(summary: ProtectionSummary) -> str:
    """That a bound is on what messages add, to follow it where an attack on labels reads more."""
    top, bound = summary.worst(), summary.bound("all")
    if top is None or bound is None or summary.kind != "rigorous" or summary.target != "labels":
        return ""
    if (top.leak_auc or 0.0) <= (bound.leak_auc or 1.0) or within_chance(top):
        return ""
    features = features_alone(summary)
    if features is None:
        return " for what messages add (features alone may tell more, which was not measured here)"
    alone = number(features.leak_auc)
    return f" for what messages add (features alone, without any message, read {alone})"


def why_above(summary: ProtectionSummary) -> str:
    """Why attacks on the true labels may read more than a bound that holds; empty if none does."""
    rows = worst_above(summary)
    if not rows or summary.target != "labels":
        return ""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(_reason(row, summary), []).append(
            f"{who(row)} reads {reading(row)} from {over(row.releases, summary.seen)}, "
            f"more than the bound of {number(row.guarantee.leak_auc)}"
        )
    told = [f"{', and '.join(leaks)}: {reason}" for reason, leaks in by_reason.items()]
    return (
        f"On the true labels {'; '.join(told)}. The bound is on what messages add, so the "
        f"canaries' AUC is what it speaks of{_canaries(summary)}."
    )


def _reason(row: FindingRow, summary: ProtectionSummary) -> str:
    """What explains one leak above its bound, or that nothing which was measured does."""
    if within_chance(row):
        return "the bound lies inside the interval, so the excess is within chance"
    features = features_alone(summary)
    if features is None:
        return (
            "that may be what the non-label party's features tell by themselves, which only a run "
            "with both parties' files on one machine can measure (docs/auditing.md, \"Two "
            'organisations that do not pool their data")'
        )
    alone = f"features alone, without any message, read {number(features.leak_auc)}"
    if (features.leak_auc_high or features.leak_auc or 0.0) >= (row.leak_auc or 0.0):
        return f"{alone}, which explains it"
    if (features.leak_auc or 0.0) >= (row.guarantee.leak_auc or 0.0):
        return f"{alone}, which is above the bound too and explains a part of it"
    return f"{alone}, which does not explain it"


def _canaries(summary: ProtectionSummary) -> str:
    """What they read, as the end of a sentence."""
    check = summary.worst_canary
    if check is None:
        return "; there were none"
    if check.standing == "no test" or check.limit is None:
        return "; there were too few"
    return f": they read {reading(check.row)}"


def listed(rows: Sequence[FindingRow]) -> str:
    """Attacks above their bound with their intervals, worst first; those without are left out."""
    known = [row for row in rows if above_bound(row) and row.leak_auc_low is not None]
    known.sort(key=lambda row: -(row.leak_auc or 0.0))
    return ", ".join(f"{who(row)} {number(row.leak_auc)} ({interval(row)})" for row in known)
