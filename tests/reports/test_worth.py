"""A joint model that does not beat the label party alone is named, in the page and the table."""

import io
import math

import pytest
from rich.console import Console

from cutlayer.findings.document import Utility
from cutlayer.reports import print_table, render_page
from cutlayer.reports.worth import base_loss, gain, worth


def utility(protection, aucs, *, halves=0.03, loss=0.2, base=0.227, strength="-"):
    splits = len(aucs)
    return Utility(
        protection=protection,
        strength=strength,
        test_auc=aucs,
        test_loss=[loss] * splits,
        test_auc_low=[auc - halves for auc in aucs],
        test_auc_high=[auc + halves for auc in aucs],
        base_loss=[base] * splits,
        mean_probability=[0.06] * splits,
        positive_share=[0.06] * splits,
    )


def document(make_findings, *utilities):
    names = [one.protection for one in utilities]
    rows = [
        row.model_copy(update={"test_auc": None, "test_loss": None})
        for row in make_findings().rows
        if row.protection in names
    ]
    return make_findings(rows=rows, utility=list(utilities))


def printed(findings):
    stream = io.StringIO()
    print_table(findings, Console(file=stream, width=100))
    return " ".join(stream.getvalue().split())


ALONE = utility("label_party_alone", [0.70, 0.71, 0.69, 0.70, 0.70])


def test_a_model_below_the_label_party_alone_is_named_in_table_and_page(make_findings):
    worse = utility("no_noise", [0.65, 0.66, 0.64, 0.65, 0.65])
    found = document(make_findings, ALONE, worse)
    (sentence,) = worth(found)
    assert sentence.startswith("no_noise is worse than the label party alone: test AUC 0.650")
    assert "against 0.700, a difference of -0.050" in sentence
    assert sentence in printed(found)
    assert "no_noise is worse than the label party alone" in render_page(found)


def test_a_model_that_is_better_in_every_split_is_not(make_findings):
    better = utility("no_noise", [0.74, 0.76, 0.73, 0.75, 0.74])
    assert worth(document(make_findings, ALONE, better)) == []


def test_a_model_that_is_better_by_less_than_its_spread_is_named(make_findings):
    perhaps = utility("residual", [0.69, 0.76, 0.68, 0.73, 0.69], strength="sigma=4.26")
    (sentence,) = worth(document(make_findings, ALONE, perhaps))
    assert "residual sigma=4.26 is not shown to be better than the label party alone" in sentence


def test_the_gain_of_three_splits_is_students():
    # Gains .01, .02, .03: mean .02, deviation .01, t(.975, 2) = 4.3027, half = .0248.
    one, other = utility("a", [0.71, 0.72, 0.73]), utility("b", [0.70, 0.70, 0.70])
    mean, low, high = gain(one, other)
    assert mean == pytest.approx(0.02)
    assert (low, high) == pytest.approx((0.02 - 0.02484, 0.02 + 0.02484), abs=1e-4)


def test_the_gain_of_one_split_is_from_both_intervals():
    mean, low, high = gain(utility("a", [0.75], halves=0.03), utility("b", [0.70], halves=0.04))
    assert mean == pytest.approx(0.05)
    assert high - mean == pytest.approx(0.05)  # 3, 4, 5
    assert mean - low == pytest.approx(0.05)


def test_the_gain_of_two_splits_halves_the_variance():
    mean, low, _ = gain(utility("a", [0.75, 0.75]), utility("b", [0.70, 0.70], halves=0.03))
    assert mean - low == pytest.approx(0.03 * math.sqrt(2) / math.sqrt(2))


def test_without_a_baseline_or_its_intervals_nothing_is_said(make_findings):
    assert worth(document(make_findings, utility("no_noise", [0.5]))) == []
    old = Utility(protection="no_noise", strength="-", test_auc=[0.5], test_loss=[0.2])
    assert gain(old, ALONE) is None
    assert gain(Utility(protection="x", strength="-", test_auc=[], test_loss=[]), ALONE) is None


def test_a_loss_above_that_of_the_share_of_positives_is_named(make_findings):
    found = document(make_findings, ALONE, utility("no_noise", [0.75] * 5, loss=0.24))
    (sentence,) = worth(found)
    assert "no_noise has test loss 0.240, above the 0.227 of the share of positives" in sentence
    assert base_loss(found) == pytest.approx(0.227)
    assert "share of positives alone has test loss 0.227" in printed(found)
    assert "0.227" in render_page(found)


def test_the_interval_of_one_split_stands_in_table_and_page(make_findings):
    found = document(make_findings, utility("no_noise", [0.75]))
    assert ".720–.780" in printed(found)
    assert "0.720 to 0.780" in render_page(found)
