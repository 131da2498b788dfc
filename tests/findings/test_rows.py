"""What a findings document says of trainings that were attacked, and of those that sent nothing."""

from datetime import datetime

import pytest

from cutlayer.audits.attack_tally import Measurement, StepCurve
from cutlayer.audits.class_histograms import GradientHistogram
from cutlayer.audits.feature_baselines import FeatureBaseline
from cutlayer.audits.leak_audit import LeakAudit
from cutlayer.audits.training_audit import TrainingAudit
from cutlayer.findings.document import Bound, Utility
from cutlayer.findings.rows import Attacked, Audited, attack_fields
from cutlayer.leakage.guarantee import Guarantee


def bound(leak):
    return Bound(kind="model", leak_auc=leak, grounds="as told")


def measurement(attack, releases, epochs=None, stage="training"):
    return Measurement(
        attack, "cut", releases, "labels", 0.7, None, 0.3, None, None, 0.55, 0.02, 9, 1, 0,
        epochs=epochs, stage=stage,
    )  # fmt: skip


def attacked(name, *measurements, shows_classes=True):
    utility = Utility(protection=name, strength="s=4", test_auc=[0.5, 0.75], test_loss=[1.0, 1.0])
    audited = Audited(utility, bound(0.6), bound(0.9), {2: bound(0.7)})
    if not measurements:
        return Attacked(audited, None)
    leak = LeakAudit(
        target="labels",
        measurements=measurements,
        curves=(StepCurve("norm", "cut", "labels", (0,), (0.6,), (0.5,)),),
        histograms=(GradientHistogram("cut", "norm", (0.0, 1.0), (1.0,), (1.0,)),),
        releases=9,
        rows=90,
    )
    prior = FeatureBaseline("prior", "labels", 0, 0.5, None, None)
    return Attacked(audited, TrainingAudit(leak, (prior,)), shows_classes)


def test_every_list_has_the_order_of_the_trainings_and_silent_ones_have_a_row():
    fields = attack_fields(
        [
            attacked("marvell", measurement("norm", "one"), measurement("cosine", "all")),
            attacked("marvell", measurement("norm", "all"), shows_classes=False),
            attacked("frozen"),
        ]
    )
    assert [(row.protection, row.attack) for row in fields["rows"]] == [
        ("marvell", "norm"),
        ("marvell", "cosine"),
        ("marvell", "norm"),
        ("frozen", None),
    ]
    assert [note.name for note in fields["attacks"]] == ["norm", "cosine"]
    assert [curve.protection for curve in fields["curves"]] == ["marvell", "marvell"]
    assert len(fields["histograms"]) == 1
    assert [known.name for known in fields["baselines"]] == ["prior", "prior"]
    assert datetime.fromisoformat(fields["created"]).tzinfo is not None


@pytest.mark.parametrize(
    ("releases", "epochs", "stage", "promised"),
    [
        ("one", None, "training", 0.6),
        ("some", 2, "training", 0.7),
        ("some", 3, "training", 0.9),  # nothing is stated for three: what holds for all holds too
        ("all", None, "training", 0.9),
        ("one", None, "inference", None),
    ],
)
def test_a_row_has_the_bound_of_as_many_releases_as_it_measures(releases, epochs, stage, promised):
    (row,) = attack_fields([attacked("m", measurement("norm", releases, epochs, stage))])["rows"]
    assert row.guarantee.leak_auc == promised
    # Two splits, 0.5 and 0.75: their mean, and half their distance as its standard error.
    assert (row.test_auc, row.test_auc_error) == (0.625, 0.125)


def test_a_bound_says_what_the_protection_guarantees():
    promised = Guarantee("rigorous", 0.8, 3, "By the closed form.")
    assert Bound.of(promised).model_dump() == {
        "kind": "rigorous",
        "leak_auc": 0.8,
        "grounds": "By the closed form.",
    }
    told = Bound.of(promised, also="The batches are those of a checkpoint.")
    assert told.grounds == "By the closed form. The batches are those of a checkpoint."
