"""The short phrases that every sentence and table of a report is made of."""

from cutlayer.findings.document import FindingRow, KnowledgeBaseline
from cutlayer.reports.summary import Releases, Seen


def number(value: float | None) -> str:
    """Three digits after the point; a dash where there is no value."""
    return "–" if value is None else f"{value:.3f}"


def interval(row: FindingRow | KnowledgeBaseline | None) -> str:
    """The 95 % confidence interval of a leak AUC, as ``0.612 to 0.700``."""
    if row is None or row.leak_auc_low is None or row.leak_auc_high is None:
        return "–"
    return f"{number(row.leak_auc_low)} to {number(row.leak_auc_high)}"


def over(releases: Releases, seen: Seen) -> str:
    """What the counts of releases are called in a sentence, to follow "from" or "over"."""
    since = "the whole training"
    if seen.every > 1:
        since = f"one of every {seen.every:,} messages"
    elif seen.gaps:
        since = "the recorded messages"
    elif seen.before:
        since = f"the training since message {seen.before + 1:,}"
    return {"one": "one release", "some": "the first epochs", "all": since}[releases]


def who(row: FindingRow) -> str:
    """An attack, with the layer where that is not the cut."""
    return f"{row.attack}{' at the first layer' if row.layer == 'first' else ''}"
