"""Whether the joint models predict better than what needs no peer."""

import math
from statistics import fmean, stdev

from scipy.stats import t as student

from cutlayer.findings.document import Findings, Utility
from cutlayer.reports.phrases import number
from cutlayer.reports.summary import ProtectionSummary, by_protection

ALONE = "label_party_alone"
"""The training that every joint one has to beat: the label party's own features, and no peer."""
_PAIRED_SPLITS = 3
"""From so many splits on, the spread of the gain over them makes its interval."""


def worth(findings: Findings) -> list[str]:
    """Every model that is not shown to beat the label party alone, or the share of positives."""
    summaries = by_protection(findings)
    alone = next((s for s in summaries if s.protection == ALONE), None)
    sentences = []
    for summary in summaries:
        if alone is not None and summary is not alone:
            sentences.append(_beside_alone(summary, alone))
        sentences.append(_beside_share(summary))
    return [sentence for sentence in sentences if sentence]


def base_loss(findings: Findings) -> float | None:
    """Test loss of the share of positives alone; ``None`` where nobody kept it."""
    known = (summary.base_loss for summary in by_protection(findings))
    return next((loss for loss in known if loss is not None), None)


def gain(joint: Utility, alone: Utility) -> tuple[float, float, float] | None:
    r"""How much more test AUC a joint model has, with the ends of a 95 % interval.

    From three splits on by Student's t of the differences split by split. Below, from the
    intervals of both, as if they had been tested on different records: usually too wide, since
    they share theirs.

    Returns:
        Mean gain, lower and upper end; ``None`` where there is no split in common, or no interval.
    """
    common = range(min(len(joint.test_auc), len(alone.test_auc)))
    gains = [
        mine - others
        for split in common
        if (mine := joint.test_auc[split]) is not None
        and (others := alone.test_auc[split]) is not None
    ]
    if not gains or len(gains) < len(common):
        return None
    mean, splits = fmean(gains), len(gains)
    if splits >= _PAIRED_SPLITS:
        half = float(student.ppf(0.975, splits - 1)) * stdev(gains) / math.sqrt(splits)
        return mean, mean - half, mean + half
    halves = [_half_length(one, split) for one in (joint, alone) for split in common]
    known = [half for half in halves if half is not None]
    if len(known) < len(halves):
        return None
    half = math.sqrt(sum(value**2 for value in known)) / splits
    return mean, mean - half, mean + half


def _half_length(one: Utility, split: int) -> float | None:
    """Half the length of the interval of a split's test AUC."""
    if not one.test_auc_low or not one.test_auc_high:
        return None
    low, high = one.test_auc_low[split], one.test_auc_high[split]
    return None if low is None or high is None else (high - low) / 2


def _beside_alone(summary: ProtectionSummary, alone: ProtectionSummary) -> str:
    """A sentence where a joint model is not better than the label party by itself."""
    if summary.utility is None or alone.utility is None:
        return ""
    found = gain(summary.utility, alone.utility)
    if found is None or found[1] > 0:
        return ""
    mean, low, high = found
    how = "worse than" if high < 0 else "not shown to be better than"
    return (
        f"{summary.label} is {how} the label party alone: test AUC {_mean(summary)} against "
        f"{_mean(alone)}, a difference of {mean:+.3f} (95 % interval {low:+.3f} to {high:+.3f})."
    )


def _beside_share(summary: ProtectionSummary) -> str:
    """A sentence where a loss is above that of the share of positives."""
    if summary.test_loss is None or summary.base_loss is None:
        return ""
    loss = summary.test_loss[0]
    if loss <= summary.base_loss:
        return ""
    return (
        f"{summary.label} has test loss {number(loss)}, above the {number(summary.base_loss)} of "
        "the share of positives alone: its probabilities mislead, whatever its order is worth."
    )


def _mean(summary: ProtectionSummary) -> str:
    """Mean test AUC."""
    return "–" if summary.test_auc is None else number(summary.test_auc[0])
