"""How numbers and findings are put into words, the same on the terminal and on the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cutlayer.findings.document import Bound, FindingRow, Findings
from cutlayer.reports.bound_violations import beside_bound, scope_of_proof, why_above
from cutlayer.reports.phrases import number, over, who
from cutlayer.reports.summary import (
    CANARY_DEVIATIONS,
    WHOLE,
    Estimate,
    ProtectionSummary,
    Releases,
    Seen,
    above_bound,
    by_protection,
    seen_by,
)

Level = Literal["alarm", "warning", "good", "note"]

LAYER_NAMES = {"cut": "cut layer", "first": "first layer"}
TARGET_NAMES = {"labels": "true labels", "canaries": "canary coins"}
KIND_NAMES = {"rigorous": "proven", "model": "model only", "none": "nothing proven"}

_CONTRAST = 0.05
"""An attack is worth naming beside the worst one if it reads this much less."""


@dataclass(frozen=True)
class Verdict:
    """One sentence or two on one protection, or on the baselines together."""

    about: str
    level: Level
    text: str
    urgency: int
    """Lower is shown first where there is room for a few verdicts only."""


def release_names(seen: Seen) -> dict[Releases, str]:
    """What the counts of releases are called in a table."""
    every = "whole training"
    if seen.every > 1:
        every = f"one of every {seen.every:,} messages"
    elif seen.gaps:
        every = "recorded messages"
    elif seen.before:
        every = f"from message {seen.before + 1:,} on"
    return {"one": "one release", "some": "first epochs", "all": every}


def printable(text: str) -> str:
    r"""Replace what would steer a terminal, turn the direction of a line, or hide.

    >>> printable("safe\x1b[31m\tand sound")
    'safe�[31m and sound'
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def estimate(value: Estimate | None) -> str:
    """Mean and standard error, as ``0.712 ± 0.010``."""
    if value is None:
        return "–"
    mean, error = value
    return number(mean) if error is None else f"{number(mean)} ± {number(error)}"


def pairs(leak_auc: float) -> str:
    """A leak AUC as a count of pairs of a positive and a negative that are told apart.

    >>> pairs(0.64), pairs(0.9996)
    ('64 of 100 pairs', 'more than 99 of 100 pairs')
    """
    whole = round(100 * leak_auc)
    return "more than 99 of 100 pairs" if whole > 99 else f"{whole} of 100 pairs"


def bound_words(bound: Bound | None) -> str:
    """Kind and value of a guarantee, as ``proven: at most 0.700``."""
    if bound is None:
        return "not stated"
    kind = KIND_NAMES[bound.kind]
    return kind if bound.leak_auc is None else f"{kind}: at most {number(bound.leak_auc)}"


def outcome(findings: Findings) -> str:
    """The whole document in one sentence, for somebody who reads nothing else."""
    summaries = [s for s in by_protection(findings) if s.attacked]
    if not summaries:
        return "No attack was run, so nothing was measured of what left the building."
    ranked = sorted(summaries, key=_worst_leak)
    least, most = ranked[0], ranked[-1]
    if len(ranked) == 1:
        known = least.bound("all")
        promise = "nothing is proven"
        if least.kind == "rigorous" and known is not None and known.leak_auc is not None:
            promise = f"proven is at most {number(known.leak_auc)}{scope_of_proof(least)}"
        return (
            f"Under {least.label} the worst attack tells {_what(least)} in "
            f"{pairs(_worst_leak(least))}; {promise}."
        )
    return (
        f"The worst attack tells {_what(most)} in {pairs(_worst_leak(most))} under {most.label}, "
        f"and in {pairs(_worst_leak(least))} under {least.label}, which gives away least."
    )


def accounts(findings: Findings) -> list[str]:
    """How much was looked at, then a sentence for each protection that was attacked."""
    summaries = [s for s in by_protection(findings) if s.attacked]
    if not summaries:
        return []
    sentences = [_scale_of(findings)]
    for summary in summaries:
        worst, bound = max(summary.attacked, key=_value), summary.bound("all")
        sentence = (
            f"Under {summary.label} the worst attack, {who(worst)}, tells {_target(worst)} in "
            f"{pairs(_value(worst))} from {over(worst.releases, seen_by(findings))}"
        )
        if worst.needs:
            sentence += f"; it needs {worst.needs}"
        promise = "nothing is guaranteed"
        if bound is not None and bound.leak_auc is not None:
            promise = (
                f"proven is at most {number(bound.leak_auc)}"
                if bound.kind == "rigorous"
                else f"a model allows {number(bound.leak_auc)}"
                + (", which the attack exceeds" if summary.beaten else "")
            )
        if above_bound(worst) and bound == worst.guarantee and bound.kind == "rigorous":
            promise += f": the attack reads {beside_bound(worst)}"
        coin = summary.worst_canary if worst.target == "labels" else None
        if coin is not None and coin.standing in ("within", "above"):
            promise += (
                f", and on coins, which no feature can tell, the worst attack reads "
                f"{beside_bound(coin.row)}"
            )
        sentences.append(f"{sentence}; {promise}.")
    return sentences


def _what(summary: ProtectionSummary) -> str:
    """What the worst attack on a protection tells apart."""
    return _target(max(summary.attacked, key=_value))


def _target(row: FindingRow) -> str:
    """What an attack tells apart."""
    return "a coin of a canary" if row.target == "canaries" else "a positive from a negative"


def remedy(summary: ProtectionSummary) -> str:
    """What would lower the worst attack, in a sentence or two; empty where nothing was measured."""
    worst = summary.worst()
    if worst is None:
        return ""
    if summary.kind == "rigorous":
        return (
            "A lower bound costs more noise: state a smaller max_leak_auc, or fewer epochs at the "
            "same noise. What features tell, no protection lowers."
        )
    advice = _FAMILY_REMEDIES.get(worst.family or "", "")
    one, every = summary.worst(releases="one"), summary.worst(releases="all")
    if one is not None and every is not None and _value(every) - _value(one) > _CONTRAST:
        advice += (
            " Each visit of a record adds to it: fewer epochs, or noise that is planned for all of "
            "them."
        )
    proven = " Only residual (a proven bound) or frozen (no gradient at all) covers every attack."
    return (advice + proven).strip()


_FAMILY_REMEDIES = {
    "norm": "Lengths give it away: max_norm hides them, and nothing else.",
    "direction": "Directions give it away: more noise along the gap of the classes (a larger s of "
    "marvell) lowers this attack.",
    "spectral": "The spectrum of a batch gives it away: noise must fill every direction, for both "
    "classes alike, which marvell and max_norm do not do.",
    "likelihood": "This attacker knows the distribution of both classes: only noise of equal shape "
    "for both lowers it.",
    "learned": "This attacker knows half of the labels: it is an upper reference.",
}


def _scale_of(findings: Findings) -> str:
    """How much was looked at."""
    attacks = len({row.attack for row in findings.rows if row.attack is not None})
    rows = sum(applied.rows for applied in findings.applied)
    return (
        f"{attacks} attacks were run on {rows:,} gradient rows that were sent for "
        f"{findings.train_records:,} training records of {printable(findings.data)}."
    )


def verdicts(findings: Findings) -> list[Verdict]:
    """What the document says about each protection, in its order; baselines come last, in one."""
    summaries = by_protection(findings)
    found = [_verdict(summary) for summary in summaries if not summary.is_baseline]
    baselines = [summary for summary in summaries if summary.is_baseline]
    return found + ([_baselines(baselines, others=bool(found))] if baselines else [])


def headlines(findings: Findings, at_most: int = 4) -> tuple[list[Verdict], int]:
    """The most urgent verdicts in the document's order, and how many were left out."""
    everything = verdicts(findings)
    urgent = sorted(everything, key=lambda verdict: verdict.urgency)[:at_most]
    return [v for v in everything if v in urgent], len(everything) - len(urgent)


def lead(findings: Findings) -> list[str]:
    """The few sentences that a reader must not miss, for the top of a page."""
    summaries = [s for s in by_protection(findings) if s.attacked]
    sentences = []
    for summary in summaries:
        if summary.protection == "no_noise":
            worst = max(summary.attacked, key=_value)
            sentences.append(
                f"Without protection, {worst.attack} tells a positive record from a negative one "
                f"in {pairs(_value(worst))}."
            )
    groups = {
        "Limited by proof": [s.label + _at_most(s) for s in summaries if s.kind == "rigorous"],
        "Limited only under a model": [
            s.label + _at_most(s) + (", but an attack measured more" if s.beaten else "")
            for s in summaries
            if s.kind == "model"
        ],
        "Measured, with nothing proven": [
            s.label for s in summaries if s.kind == "none" and s.protection != "no_noise"
        ],
        "ABOVE ITS BOUND against the canaries": [
            s.label for s in summaries if any(c.standing == "above" for c in s.canaries)
        ],
    }
    return sentences + [f"{what}: {'; '.join(who)}." for what, who in groups.items() if who]


def not_measured(findings: Findings) -> list[str]:
    """Every gap of the document, one sentence each."""
    gaps: list[str] = []
    if not findings.complete:
        gaps.append("The run was interrupted: everything here covers only what was done.")
    if findings.messages_before:
        gaps.append(_not_covered(findings))
    if findings.messages_missing:
        gaps.append(_not_recorded(findings))
    if findings.messages_every > 1:
        gaps.append(
            f"Most messages: the attacks looked at one of every {findings.messages_every:,} "
            f"(audit_every), {1 / findings.messages_every:.0%} of them, so they joined fewer "
            "visits of a record than the peer has; with all of them they may read more. "
            f"{_COUNTED} With audit_every = 1 all are attacked while they are sent, which takes "
            "several times as long as the training; a run with the key record can be attacked as a "
            "whole afterwards, by `cutlayer audit`."
        )
    if findings.first_layer != "measured":
        gaps.append(f"First layer: {findings.first_layer}")
    if findings.rows and not any(row.target == "canaries" for row in findings.rows):
        gaps.append("Canaries: none in this run, so no bound was put to the test.")
    splits = [len(utility.test_auc) for utility in findings.utility]
    if splits and max(splits) == 1:
        gaps.append(
            "Spread of test AUC and loss over trainings: one split only, so no standard error."
        )
    if any(auc is None for utility in findings.utility for auc in utility.test_auc):
        gaps.append(
            f"Test AUC: not defined, since the {findings.test_records:,} test records are all of "
            "one class, or the model predicts NaN. Train with more records or a larger test share, "
            "in a run of another name; do not tell the non-label party, as this tells it about "
            "labels."
        )
    if skipped := max((row.one_class_batches for row in findings.rows), default=0):
        gaps.append(
            f"Batches of one class: up to {skipped} in a training were protected and sent as all "
            "others, but have no leak AUC of their own."
        )
    for summary in by_protection(findings):
        if summary.undefined:
            gaps.append(f"{summary.label}: {_undefined(summary.undefined)}")
        if summary.is_unattacked:
            gaps.append(f"{summary.label}: no attack was run on it.")
    return gaps


def _undefined(rows: Sequence[FindingRow]) -> str:
    """How many attacks have no leak AUC, which, and why."""
    are = "leak AUC is" if len(rows) == 1 else "leak AUCs are"
    if all(row.releases == "one" and row.one_class_batches == row.batches for row in rows):
        return f"{len(rows)} {are} undefined, since no batch held both classes."
    names = list(
        dict.fromkeys(
            f"{who(row)} after {row.epochs} epoch{'s' if row.epochs > 1 else ''}"
            if row.epochs is not None
            else who(row)
            for row in rows
        )
    )
    such = "such as " if len(names) > _NAMED else ""
    return (
        f"{len(rows)} {are} undefined ({such}{', '.join(names[:_NAMED])}): the attack had too "
        "little to score by, such as one visit where it compares visits, or records of one class."
    )


_NAMED = 3
"""So many attacks without a leak AUC are named."""

_COUNTED = "The bound, where there is one, counts them too."


def _not_covered(findings: Findings) -> str:
    """What an earlier start of an interrupted run sent, and how much of it is on record."""
    recorded = findings.messages_recorded
    if recorded == findings.messages_before:
        remedy = "They are on record: `cutlayer audit` on the run's folder attacks them."
    elif recorded:
        remedy = (
            f"{recorded:,} of them are on record: `cutlayer audit` on the run's folder attacks "
            "those; nobody can attack the others any more."
        )
    else:
        remedy = (
            "None of them is on record: only a run that has the key record from its first start on "
            "can be attacked as a whole."
        )
    return (
        f"Messages 1 to {findings.messages_before:,}: an earlier start sent them. The attacks saw "
        f"only what came after; with all of it they may read more. {_COUNTED} {remedy}"
    )


def _not_recorded(findings: Findings) -> str:
    """What was sent while nothing was recorded, or before a crash that took the record with it."""
    named = []
    for first, last in findings.messages_missing:
        message = f"message {first:,}" if first == last else f"messages {first:,} to {last:,}"
        named.append(
            f"{message}, the end of the run" if last == findings.messages_sent else message
        )
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
    return (
        f"M{listed[1:]}: sent, but not on record, by a start without the key record or one that "
        f"was killed. The attacks did not see them; with them they may read more. {_COUNTED}"
    )


def _at_most(summary: ProtectionSummary) -> str:
    """The bound for the whole training, as `` (at most 0.700)``; empty where there is none."""
    bound = summary.bound("all")
    return "" if bound is None or bound.leak_auc is None else f" (at most {number(bound.leak_auc)})"


def _verdict(summary: ProtectionSummary) -> Verdict:
    """The verdict on one protection, by the kind of its guarantee."""
    if not summary.attacked:
        why = "no attack was run" if summary.is_unattacked else "no leak was measured"
        known = summary.bound("all")
        if summary.kind == "rigorous" and known is not None and known.leak_auc is not None:
            text = f"{_proven(summary)}, but {why}: what its messages tell was not measured."
        else:
            text = f"{why}, so nothing is known about what its messages tell."
        return Verdict(summary.label, "warning", text, 4)
    if summary.kind == "rigorous":
        return _rigorous(summary)
    if summary.kind == "model":
        return _model(summary)
    level: Level = "alarm" if _worst_leak(summary) >= 0.9 else "warning"
    text = f"nothing is proven. {_measured(summary)} {remedy(summary)}".strip()
    return Verdict(summary.label, level, text, 2 if summary.protection == "no_noise" else 5)


def _model(summary: ProtectionSummary) -> Verdict:
    """A bound under assumptions stands or falls with the worst measured attack."""
    promises, seen = [], summary.seen
    both: tuple[Releases, Releases] = ("one", "all")
    for releases in both:
        bound, worst = summary.bound(releases), summary.worst(releases=releases)
        if bound is not None and bound.leak_auc is not None and worst is not None:
            promises.append(
                f"at most {number(bound.leak_auc)} from {over(releases, WHOLE)}, "
                f"measured {beside_bound(worst)} by {who(worst)}"
                + ("" if seen == WHOLE or releases == "one" else f" in {over(releases, seen)}")
            )
    if not promises:
        text = f"its bound is not stated. {_measured(summary)}"
        return Verdict(summary.label, "warning", text, 1)
    end = "Its model does not hold here" if summary.beaten else "It holds only if its model does"
    text = f"its model allows {'; '.join(promises)}. {end}. {_contrast(summary)}".strip()
    text = f"{text} {remedy(summary)}".strip()
    return Verdict(summary.label, "alarm" if summary.beaten else "warning", text, 1)


def _rigorous(summary: ProtectionSummary) -> Verdict:
    """A proven bound, and whether the canaries agree with it."""
    promise = _proven(summary)
    check = summary.worst_canary
    if check is None or check.limit is None or not summary.tested:
        gap = "there were no" if check is None else "there were too few"
        text = f"{promise}, but {gap} canaries to put it to the test. {_measured(summary)}"
        return Verdict(summary.label, "warning", f"{text} {why_above(summary)}".strip(), 1)
    worst = f"{beside_bound(check.row)} by {who(check.row)}"
    if check.standing == "above":
        text = (
            f"{promise}, but the canaries read {worst} from "
            f"{over(check.row.releases, summary.seen)}, ABOVE "
            f"the bound of {number(check.row.guarantee.leak_auc)} by more than "
            f"{CANARY_DEVIATIONS} deviations of chance. Something is wrong: do not rely on this "
            "training."
        )
        return Verdict(summary.label, "alarm", text, 0)
    attacks = len({check.row.attack for check in summary.tested})
    nobody = "the one attack is not" if attacks == 1 else f"none of {attacks} attacks is"
    chance = " by more than chance" if any(above_bound(c.row) for c in summary.tested) else ""
    text = (
        f"{promise}. Against the canaries {nobody} above its bound{chance}: the worst reads "
        f"{worst}, where the limit with chance is {number(check.limit)}."
    )
    return Verdict(summary.label, "good", f"{text} {why_above(summary)}".strip(), 1)


def _proven(summary: ProtectionSummary) -> str:
    """A rigorous bound as a clause."""
    both: tuple[Releases, Releases] = ("all", "one")
    for releases in both:
        bound = summary.bound(releases)
        if bound is not None and bound.leak_auc is not None:
            return (
                f"at most {number(bound.leak_auc)} over {over(releases, WHOLE)} is proven"
                f"{scope_of_proof(summary)}, for every network and every attack"
            )
    return "a bound is proven, but its value is not stated"


def _baselines(summaries: list[ProtectionSummary], *, others: bool) -> Verdict:
    """The trainings without gradients, which every protection has to beat."""
    utility = ", ".join(f"{s.label} {estimate(s.test_auc)}" for s in summaries)
    told = f"Test AUC to beat: {utility}" if others else f"Test AUC: {utility}"
    text = f"no gradient is sent, so there is none to attack. {told}."
    return Verdict("baselines", "note", text, 3)


def _measured(summary: ProtectionSummary) -> str:
    """The worst attack on one release and on the whole training."""
    both: tuple[Releases, Releases] = ("one", "all")
    worst = [row for r in both if (row := summary.worst(releases=r)) is not None]
    first, *others = worst
    sentence = (
        f"From {over(first.releases, summary.seen)}, {who(first)} tells a positive from "
        f"a negative in {pairs(_value(first))}"
    )
    for row in others:
        many = pairs(_value(row))
        how_many = "in as many" if many == pairs(_value(first)) else f"in {many}"
        same = (row.attack, row.layer) == (first.attack, first.layer)
        all_of_it = over(row.releases, summary.seen)
        sentence += f"; from {all_of_it}, {'' if same else who(row) + ' '}{how_many}"
    return f"{sentence}. {_contrast(summary)}".strip()


def _contrast(summary: ProtectionSummary) -> str:
    """What an audit with the classical attacks alone would have missed."""
    worst = summary.worst(layer="cut", releases="one")
    cosine = summary.cell("cosine", layer="cut", releases="one")
    if worst is None or cosine is None or cosine.leak_auc is None:
        return ""
    if _value(worst) - cosine.leak_auc < _CONTRAST:
        return ""
    return f"An audit by cosine alone would have read {number(cosine.leak_auc)}."


def _worst_leak(summary: ProtectionSummary) -> float:
    """The highest leak AUC of the protection, whatever the conditions."""
    return max(_value(row) for row in summary.attacked)


def _value(row: FindingRow) -> float:
    """The leak AUC of a row that was selected for having one."""
    return 0.0 if row.leak_auc is None else row.leak_auc
