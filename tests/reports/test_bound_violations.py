"""What is said of leaks above a stated bound: how sure they are, and what explains them."""

import pytest

from cutlayer.findings.document import KnowledgeBaseline
from cutlayer.reports import render_page
from cutlayer.reports.bound_violations import (
    beside_bound,
    reading,
    why_above,
    within_chance,
    worst_above,
)
from cutlayer.reports.summary import by_protection
from cutlayer.reports.wording import accounts, outcome, verdicts

RESIDUAL = ("residual", "sigma=4.26")  # proven: .566 in one release, .700 over all


def residual(findings, *, labels=None, canaries=None, baselines=(), make):
    """The document with other readings of all attacks on residual noise over all releases."""
    rows = []
    for row in findings.rows:
        change = {"labels": labels, "canaries": canaries}[row.target]
        if (row.protection, row.strength) == RESIDUAL and change and row.releases == "all":
            leak, low, high = change
            row = row.model_copy(
                update={"leak_auc": leak, "leak_auc_low": low, "leak_auc_high": high}
            )
        elif row.protection == "residual" and row.releases == "one":
            row = row.model_copy(update={"leak_auc": 0.55})
        rows.append(row)
    return make(rows=rows, baselines=list(baselines))


def summary(findings):
    return next(s for s in by_protection(findings) if s.protection == "residual")


def features(leak, high=None):
    return KnowledgeBaseline(
        protection="residual",
        strength="sigma=4.26",
        name="features_half",
        target="labels",
        hints=0,
        leak_auc=leak,
        leak_auc_low=None if high is None else leak - (high - leak),
        leak_auc_high=high,
        true_positive_rate=None,
    )


def test_no_leak_above_its_bound_needs_no_words(findings, make_findings):
    found = residual(findings, labels=(0.69, 0.67, 0.72), make=make_findings)
    assert worst_above(summary(found)) == []
    assert why_above(summary(found)) == ""


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ([], "(features alone may tell more, which was not measured here)"),
        ([features(0.76)], "(features alone, without any message, read 0.760)"),
    ],
    ids=["unmeasured", "measured"],
)
def test_the_first_sentence_says_what_a_proof_is_about(findings, make_findings, known, words):
    found = residual(findings, labels=(0.75, 0.73, 0.77), baselines=known, make=make_findings)
    alone = found.model_copy(
        update={"rows": [row for row in found.rows if row.protection == "residual"]}
    )
    assert f"proven is at most 0.700 for what messages add {words}" in outcome(alone)
    told = next(v.text for v in verdicts(found) if v.about == "residual sigma=4.26")
    assert f"is proven for what messages add {words}" in told.split(". ")[0]


@pytest.mark.parametrize(
    ("reads", "known", "words"),
    [
        # .69 <= .700: the bound lies inside the interval.
        ((0.71, 0.69, 0.73), [], "the bound lies inside the interval, so the excess is within ch"),
        ((0.71, 0.69, 0.73), [features(0.60)], "so the excess is within chance"),
        ((0.75, 0.73, 0.77), [features(0.76)], "read 0.760, which explains it"),
        # The classifier's own interval reaches .752, past .75.
        ((0.75, 0.73, 0.77), [features(0.74, 0.752)], "read 0.740, which explains it"),
        ((0.75, 0.73, 0.77), [features(0.72, 0.73)], "above the bound too and explains a part"),
        ((0.75, 0.73, 0.77), [features(0.65, 0.66)], "read 0.650, which does not explain it"),
        ((0.75, 0.73, 0.77), [], "by themselves, which only a run"),
        # No interval was kept, so chance is no explanation.
        ((0.75, None, None), [features(0.65)], "norm reads 0.750 from the whole training"),
    ],
)
def test_what_explains_a_leak_above_a_proof(findings, make_findings, reads, known, words):
    found = residual(findings, labels=reads, baselines=known, make=make_findings)
    text = why_above(summary(found))
    assert words in text
    assert text.endswith("the canaries' AUC is what it speaks of: they read 0.670.")
    assert text in next(v for v in verdicts(found) if v.about.startswith("residual")).text


def test_the_strongest_classifier_of_features_is_named(findings, make_findings):
    known = [features(0.61), features(0.77), features(0.70)]
    found = residual(findings, labels=(0.75, 0.73, 0.77), baselines=known, make=make_findings)
    assert "features alone, without any message, read 0.770" in why_above(summary(found))


def test_leaks_of_one_reason_share_its_words(findings, make_findings):
    rows = [
        row.model_copy(update={"leak_auc": 0.8})
        if (row.protection, row.target) == ("residual", "labels")
        else row
        for row in findings.rows
    ]
    text = why_above(summary(make_findings(rows=rows)))
    assert text.count("by themselves, which only a run") == 1
    assert (
        "norm reads 0.800 from one release, more than the bound of 0.566, and norm reads 0.800 "
        "from the whole training, more than the bound of 0.700: that may be" in text
    )


def test_canaries_a_little_above_their_bound_are_read_with_their_interval(findings, make_findings):
    found = residual(findings, canaries=(0.707, 0.68, 0.734), make=make_findings)
    text = next(v for v in verdicts(found) if v.about.startswith("residual")).text
    # .700 + 5 x .0129 = .7645
    assert (
        "none of 5 attacks is above its bound by more than chance: the worst reads "
        "0.707 (95 %: 0.680 to 0.734, with the bound inside)" in text
    )
    assert "the limit with chance is 0.76" in text
    account = next(sentence for sentence in accounts(found) if "residual" in sentence)
    assert "the attack reads 0.707 (95 %: 0.680 to 0.734, with the bound inside)." in account


def test_chance_needs_an_interval_that_holds_the_bound(findings):
    row = next(r for r in findings.rows if r.protection == "marvell" and r.releases == "all")
    above = row.model_copy(update={"leak_auc": 0.98})  # its model allows .971
    assert not within_chance(above)
    assert beside_bound(above) == reading(above) == "0.980"
    for low, chance in ((0.9711, False), (0.97, True)):
        known = above.model_copy(update={"leak_auc_low": low, "leak_auc_high": 0.99})
        assert within_chance(known) is chance
    assert beside_bound(known) == "0.980 (95 %: 0.970 to 0.990, with the bound inside)"
    below = known.model_copy(update={"leak_auc": 0.97})
    assert beside_bound(below) == "0.970"


def test_a_model_that_is_beaten_says_by_how_much(findings, make_findings):
    rows = [
        row.model_copy(update={"leak_auc_low": 0.985, "leak_auc_high": 0.996})
        if (row.protection, row.attack, row.releases) == ("marvell", "tail_energy", "one")
        else row
        for row in findings.rows
    ]
    text = next(v for v in verdicts(make_findings(rows=rows)) if v.about == "marvell s=4").text
    assert "at most 0.683 from one release, measured 0.992 (95 %: 0.985 to 0.996) by" in text


def test_the_page_shows_the_interval_beside_every_leak_above_its_bound(findings, make_findings):
    found = residual(
        findings, labels=(0.71, 0.6875, 0.7325), canaries=(0.7, 0.68, 0.72), make=make_findings
    )
    page = render_page(found)
    # Table of leaks and list of attacks at two layers; guarantees; the card.
    assert page.count("0.688 to 0.733") + page.count("0.688 to 0.732") > 20
    assert "95 % interval 0.688 to 0.73" in page
    assert "so the excess is within chance" in page
    assert "0.680 to 0.720" in page  # in the list of every measurement
    row = page[page.index('<th scope="row">norm</th>') :]
    assert "↑</abbr>" in row[: row.index("</tr>")]
