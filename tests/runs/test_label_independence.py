"""Labels that decide nothing the peer can see: by command, on generated files."""

import json

import polars as pl
import pytest
import torch

from cutlayer.data import Split
from cutlayer.errors import LeakStopError
from cutlayer.runs.guarded_observer import GuardedObserver
from cutlayer.transcript.release import Release
from tests.runs.test_two_commands import Pair, assert_ended_well, pair

__all__ = ["pair"]  # a fixture


def label_the_test_part(pair: Pair, target: int) -> int:
    """Make all test records negative but one, whose label is given; returns how many there are."""
    ids = sorted(row["id"] for row in pair.rows)
    part = Split.by_shares(ids, seed=0, validation=0.1, test=0.2).test.tolist()
    held_out = {ids[number] for number in part}
    labels = dict.fromkeys(held_out, 0) | {ids[part[0]]: target}
    table = [{**row, "y": labels.get(row["id"], row["y"])} for row in pair.rows]
    pair.write_table("label", ["id", "y", "x0", "x1"], table=table)
    return len(held_out)


@pytest.mark.parametrize("protection", ["frozen", "residual:sigma=2"])
def test_a_peer_sees_the_same_whether_its_target_is_positive_or_not(pair, protection):
    shown = []
    for target in (1, 0):
        records = label_the_test_part(pair, target)
        options = ("--protection", protection, "--run", f"run{target}", "--cut-width", "1")
        done = pair.run(label=options, other=options)
        assert_ended_well(done)
        status, out, err = done["other"]
        shown.append((status, out.replace(f"run{target}", "run"), err))
        out = done["label"][1]
        found = f"label party: the AUC of the test records is not defined, since all {records} of"
        assert (found in out) == (target == 0)
        assert ("Test AUC not defined, loss 0." in out) == (target == 0)
        kept = pair.folder / "label" / "runs" / f"run{target}" / "label-party"
        utility = json.loads((kept / "findings.json").read_text())["utility"][0]
        assert (utility["test_auc"] == [None]) == (target == 0)
        assert utility["test_loss"][0] > 0
        page = (kept / "report.html").read_text()
        assert ("Test AUC: not defined" in page) == (target == 0)
        predictions = pl.read_csv(kept / "predictions.csv", schema_overrides={"id": pl.String})
        assert len(predictions.filter(pl.col("part") == "test")) == records
    assert shown[0] == shown[1]
    assert_ended_well(pair.run(label=options, other=options, command="predict"))


def test_a_part_that_is_too_small_is_refused_at_both_before_anything_is_sent(pair):
    few = pair.rows[:60]  # of which .1 validate
    pair.write_table("other", ["id", "x2", "x3"], table=few)
    done = pair.run()
    for party in ("label", "other"):
        status, _, err = done[party]
        assert status == 2, err
        assert "of the 60 shared records fall into the validation part" in " ".join(err.split())
    assert not (pair.kept("label") / "journal").exists()


def test_labels_that_changed_are_refused_by_all_rows_also_under_a_private_alignment(pair):
    """The peer chose the shared ids; the row whose label changes is none of them."""
    pytest.importorskip("rbcl", reason="needs cutlayer[psi]")
    pair.write_configurations(alignment='"private"')
    pair.write_table("other", ["id", "x2", "x3"], table=pair.rows[50:])
    assert_ended_well(pair.run(command="align"))
    assert_ended_well(pair.run())
    changed = [{**row, "y": 1 - row["y"]} if i == 7 else row for i, row in enumerate(pair.rows)]
    pair.write_table("label", ["id", "y", "x0", "x1"], table=changed)
    done = pair.run()
    assert done["label"][0] == 2
    assert "the labels of 1 of its records" in done["label"][2]
    assert "'00007'" in done["label"][2]
    assert done["other"][0] == 1


RELEASE = Release(5, 0, torch.tensor([0, 1]), torch.zeros(2, 3), torch.zeros(2, 3))


class Failing:
    """An audit that fails on a positive in the first row."""

    def __init__(self, error):
        self.error, self.seen = error, 0

    def on_release(self, release, labels, clean_gradient):
        self.seen += 1
        if labels[0] == 1:
            raise self.error


def test_an_audit_that_fails_is_told_to_the_operator_and_ends_nothing():
    told, audit = [], Failing(ValueError("no direction"))
    guarded = GuardedObserver(audit, "the audit", told.append)
    guarded.on_release(RELEASE, torch.tensor([0, 0]), RELEASE.gradient)
    assert (guarded.has_failed, told) == (False, [])
    for _ in range(2):
        guarded.on_release(RELEASE, torch.tensor([1, 0]), RELEASE.gradient)
    assert (guarded.has_failed, audit.seen, len(told)) == (True, 2, 1)
    assert told[0].startswith("label party: the audit failed at step 5 (ValueError: no direction)")


def test_a_stop_that_the_operator_asked_for_passes():
    guarded = GuardedObserver(Failing(LeakStopError("stop")), "the audit", print)
    with pytest.raises(LeakStopError):
        guarded.on_release(RELEASE, torch.tensor([1, 0]), RELEASE.gradient)
