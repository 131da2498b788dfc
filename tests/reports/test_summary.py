import math

import pytest

from cutlayer.findings.document import Bound
from cutlayer.reports.summary import (
    attacks_of,
    below_floor,
    by_protection,
    layers_of,
)


def of(findings, protection):
    return next(s for s in by_protection(findings) if s.protection == protection)


def changed(findings, protection, **fields):
    """The rows of a document, with fields of one protection's rows replaced."""
    return [
        row.model_copy(update=fields) if row.protection == protection else row
        for row in findings.rows
    ]


def test_the_order_of_the_document_is_kept(findings):
    assert [s.label for s in by_protection(findings)] == [
        "label_party_alone",
        "frozen",
        "no_noise",
        "isotropic t=1",
        "max_norm",
        "marvell s=4",
        "residual sigma=4.26",
    ]
    assert attacks_of(findings)[0] == "norm"
    assert layers_of(findings) == ["cut", "first"]


def test_a_training_that_was_never_attacked_comes_last(make_findings, findings):
    kept = [row for row in findings.rows if row.protection != "no_noise"]
    last = by_protection(make_findings(rows=kept))[-1]
    assert (last.label, last.attacked, last.kind) == ("no_noise", (), None)
    assert not last.is_baseline


def test_mean_and_error_come_from_the_splits_where_no_row_states_them(make_findings):
    # Values m - .02 ... m + .02: variance .001 / 4 = .00025, error sqrt(.00025 / 5) = .00707.
    residual = of(make_findings(rows=[]), "residual")
    assert residual.test_auc == pytest.approx((0.688, math.sqrt(0.00025 / 5)))


def test_the_worst_attack_is_the_one_with_the_highest_leak(findings):
    marvell = of(findings, "marvell")
    worst = marvell.worst(layer="cut", releases="one")
    assert (worst.attack, worst.leak_auc) == ("tail_energy", 0.992)
    assert marvell.worst().leak_auc == 1.0
    assert of(findings, "frozen").worst() is None


def test_canaries_do_not_count_as_labels_unless_nothing_else_was_measured(make_findings, findings):
    assert of(findings, "residual").target == "labels"
    coins = [row for row in findings.rows if row.target == "canaries"]
    residual = of(make_findings(rows=coins), "residual")
    assert residual.target == "canaries"
    assert residual.worst().leak_auc == pytest.approx(0.67)


def test_a_model_bound_is_withheld_where_no_attack_stands_beside_it(make_findings, findings):
    marvell = of(make_findings(rows=changed(findings, "marvell", leak_auc=None)), "marvell")
    assert marvell.bound("all").leak_auc is None
    assert marvell.bound("all").kind == "model"
    residual = of(make_findings(rows=changed(findings, "residual", leak_auc=None)), "residual")
    assert residual.bound("all").leak_auc == 0.7


def test_a_model_bound_is_beaten_by_what_was_measured_on_as_many_releases(make_findings, findings):
    assert of(findings, "marvell").beaten
    below = changed(findings, "marvell", leak_auc=0.6)
    assert not of(make_findings(rows=below), "marvell").beaten
    # A proof is judged by canaries, not by attacks on labels that features tell as well.
    above = changed(findings, "residual", leak_auc=0.9)
    assert not of(make_findings(rows=above), "residual").beaten


@pytest.mark.parametrize(
    ("leak", "standing"),
    [(0.7, "within"), (0.7644, "within"), (0.7646, "above")],  # limit .7 + 5 x .0129 = .7645
)
def test_a_canary_stands_above_when_it_exceeds_its_bound_by_five_deviations(
    make_findings, findings, leak, standing
):
    coins = [
        row.model_copy(update={"leak_auc": leak})
        for row in findings.rows
        if (row.protection, row.target, row.attack) == ("residual", "canaries", "norm")
    ]
    assert of(make_findings(rows=coins), "residual").worst_canary.standing == standing


def test_a_limit_of_one_or_more_is_no_test(findings):
    # .971 + 5 x .0129 > 1: whatever an attack reads, it could not be above.
    assert {check.standing for check in of(findings, "marvell").canaries} == {"no test"}


def test_without_a_bound_canaries_are_shown_but_not_judged(make_findings, findings):
    nothing = Bound(kind="none", leak_auc=None, grounds="Nothing is proven.")
    rows = changed(findings, "residual", guarantee=nothing)
    assert of(make_findings(rows=rows), "residual").worst_canary.standing == "no bound"


def test_the_check_that_decides_is_the_one_furthest_above_its_limit(make_findings, findings):
    coins = [r for r in findings.rows if (r.protection, r.target) == ("residual", "canaries")]
    strongest = coins[0].model_copy(update={"leak_auc": 0.95})
    furthest = coins[1].model_copy(
        update={
            "releases": "one",
            "leak_auc": 0.9,
            "guarantee": Bound(kind="rigorous", leak_auc=0.566, grounds="One release."),
        }
    )
    checked = of(make_findings(rows=[strongest, furthest]), "residual").worst_canary
    assert (checked.leak_auc, checked.standing) == (0.9, "above")


def test_a_leak_at_its_floor_is_explained_by_chance(findings):
    row = of(findings, "residual").cell("norm", layer="cut", releases="one")
    assert below_floor(row)
    assert below_floor(row.model_copy(update={"leak_auc": 0.6}))
    assert not below_floor(row.model_copy(update={"leak_auc": 0.601}))
    assert not below_floor(row.model_copy(update={"null_floor": None}))
