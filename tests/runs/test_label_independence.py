"""Labels that decide nothing the peer can see: by command, on generated files."""

import json
from pathlib import Path

import polars as pl
import pytest
import torch

from cutlayer.audits import TRANSCRIPT
from cutlayer.audits.ground_truth import GroundTruth, read_ground_truth, write_ground_truth
from cutlayer.data import Split
from cutlayer.errors import ConfigurationError, DataError, LeakStopError, StorageError
from cutlayer.operation.network_watch import WatchedEndpoint, WatchedTransport
from cutlayer.operation.status import RunStatus
from cutlayer.protocol import Kind
from cutlayer.runs.configuration import LabelConfiguration, read_configuration
from cutlayer.runs.guarded_observer import GuardedObserver
from cutlayer.runs.monitor import Unmonitored
from cutlayer.runs.party_runs import STOPPED_FILE, run_label_party
from cutlayer.runs.session_opening import read_records
from cutlayer.transcript import Transcript
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


@pytest.mark.parametrize("private", [False, True])
def test_a_recording_of_other_labels_is_refused_before_the_peer_is_met(pair, private):
    """As a backup leaves it that was restored in part: the record of the labels is of another day.

    Under a private alignment the file has rows that the peer lacks.
    """
    pair.own["label"]["record"] = '"1 MiB"'
    if private:
        pytest.importorskip("rbcl", reason="needs cutlayer[psi]")
        pair.settings["alignment"] = '"private"'
        pair.write_table("other", ["id", "x2", "x3"], table=pair.rows[50:])
    pair.write_configurations()
    if private:
        assert_ended_well(pair.run(command="align"))
    assert_ended_well(pair.run())
    truth = pair.kept("label") / "messages" / "truth.safetensors"
    ids = Transcript(truth.parent / TRANSCRIPT).ids
    recorded = read_ground_truth(truth)
    known = (recorded.labels >= 0).nonzero()[:2, 0].tolist()
    labels = recorded.labels.clone()
    labels[known] = 1 - labels[known]
    write_ground_truth(GroundTruth(labels), truth)
    more = ("--epochs", "4")
    done = pair.run(label=more, other=more)
    assert done["other"][0] == 1
    status, out, err = done["label"]
    words = " ".join(err.split())
    assert status == 2, err
    assert "Connected" not in out
    assert "the labels of 2 records in" in words
    assert "truth.safetensors" in words
    assert all(repr(ids[row]) in words for row in known)
    assert "restore all of it from one copy" in words
    truth.parent.rename(truth.parent.with_name("elsewhere"))
    assert_ended_well(pair.run(label=more, other=more))


RELEASE = Release(5, 0, torch.tensor([0, 1]), torch.zeros(2, 3), torch.zeros(2, 3))


class Failing:
    """An audit that fails on a positive in the first row."""

    def __init__(self, error):
        self.error, self.seen = error, 0

    def on_release(self, release, labels, clean_gradient):
        self.seen += 1
        if labels[0] == 1:
            raise self.error


@pytest.mark.parametrize("kind", [ValueError, DataError, ConfigurationError])
def test_an_audit_that_fails_is_told_to_the_operator_and_ends_nothing(kind):
    told, audit = [], Failing(kind("no direction"))
    guarded = GuardedObserver(audit, "the audit", told.append)
    guarded.on_release(RELEASE, torch.tensor([0, 0]), RELEASE.gradient)
    assert (guarded.has_failed, told) == (False, [])
    for _ in range(2):
        guarded.on_release(RELEASE, torch.tensor([1, 0]), RELEASE.gradient)
    assert (guarded.has_failed, audit.seen, len(told)) == (True, 2, 1)
    assert told[0].startswith(
        f"label party: the audit failed at step 5 ({kind.__name__}: no direction)"
    )


@pytest.mark.parametrize("kind", [LeakStopError, StorageError])
def test_a_stop_that_the_operator_asked_for_and_a_full_disk_pass(kind):
    guarded = GuardedObserver(Failing(kind("stop")), "the audit", print)
    with pytest.raises(kind):
        guarded.on_release(RELEASE, torch.tensor([1, 0]), RELEASE.gradient)


class StopsAtStep:
    """A live audit whose alarm stops the run."""

    def __init__(self, before):
        self.before = before

    def on_release(self, release, labels, clean_gradient):
        if release.step == 2:
            self.before()
            raise LeakStopError("the leak is high")


class Noting(WatchedTransport):
    """Notes at each message out what the label party's folder says of a stop."""

    kept, said = None, ()

    def send(self, header, payload, *, deadline):
        text = self.kept.read_text() if self.kept.is_file() else None
        self.said.append((header[6], text))
        super().send(header, payload, deadline=deadline)


class NotingMonitor(Unmonitored):
    def __init__(self, kept):
        self.kept, self.said = kept, []

    def watched(self, endpoint):
        status = RunStatus(epochs=1, planned_releases=1, releases=True)
        kept = {"kept": self.kept, "said": self.said}
        noting = type("Here", (Noting,), kept)

        class Watched(WatchedEndpoint):
            def meet(self, *, deadline):
                return noting(endpoint.meet(deadline=deadline), status, lambda event: None)

        return Watched(endpoint, status, lambda event: None)


@pytest.fixture
def stopped(pair, monkeypatch):
    """A run that is stopped; gives what was on record at each message out, and the notices."""

    def run(before=lambda kept: None):
        monkeypatch.chdir(pair.folder / "label")
        label = read_configuration(LabelConfiguration, Path("run.toml"), {})
        kept = label.run_folder / STOPPED_FILE
        monitor, told = NotingMonitor(kept), []
        peer = pair.start("other")
        with pytest.raises(LeakStopError, match="the leak is high"):
            run_label_party(
                label,
                read_records(label),
                observers=(StopsAtStep(lambda: before(kept)),),
                tell=told.append,
                monitor=monitor,
            )
        peer.communicate(timeout=60)
        assert peer.returncode == 1
        return monitor.said, told

    return run


def test_a_stop_is_on_record_before_the_peer_is_told(stopped):
    said, _ = stopped()
    assert said[-1] == (Kind.ERROR, "the leak is high\n")
    assert said[-2] == (Kind.GRADIENT, None)


def test_a_stop_that_cannot_be_written_is_still_a_stop(stopped):
    """A folder in the place of the file stands for a disk that refuses it."""
    said, told = stopped(lambda kept: kept.mkdir())
    assert said[-1] == (Kind.ERROR, None)
    assert any("the stop could not be written" in sentence for sentence in told)
