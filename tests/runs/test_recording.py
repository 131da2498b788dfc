"""Recording a run and attacking it afterwards, with both parties in this process."""

import csv
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from cutlayer.alignment.aligned_ids import write_aligned_ids
from cutlayer.attacks import ATTACKS
from cutlayer.audits import AuditScope
from cutlayer.data import TextSequence
from cutlayer.durable import only_process
from cutlayer.errors import ConfigurationError, ConnectionLostError, DataError
from cutlayer.findings.document import read_findings, write_findings
from cutlayer.leakage.sum_kl_bounds import leak_auc_bound
from cutlayer.parties import CheckpointStore, LabelParty, NonLabelParty, Persistence
from cutlayer.parties.release_journal import ENTRY_BYTES, ReleaseJournal
from cutlayer.parties.top_trainer import restore_protection
from cutlayer.protocol import in_memory_pair
from cutlayer.reports.summary import seen_by
from cutlayer.reports.wording import not_measured, release_names, verdicts
from cutlayer.runs.canary_run import findings_of_canary_run
from cutlayer.runs.configuration import (
    LabelConfiguration,
    NonLabelConfiguration,
    read_configuration,
)
from cutlayer.runs.model_factory import build_bottom, build_top
from cutlayer.runs.party_runs import make_optimizer
from cutlayer.runs.recorded_run import findings_of_recorded_run
from cutlayer.runs.recording import is_recorded_run, open_recorder, recorded_messages
from tests.runs.test_two_commands import rows

COMMON = (
    "protection",
    "epochs",
    "batch_size",
    "micro_batches",
    "alignment",
    "checkpoint_every",
)
"""Settings that both parties must have."""
NAMED = {name: ATTACKS[name] for name in ("norm", "received_cosine")}
SCOPE = AuditScope(hints=(0, 5), seeds=2, after=(1, 2), few_records=True)


@pytest.fixture
def configurations(tmp_path):
    """Two configurations and their files; keys may be changed."""

    def write(**changes):
        shared = {
            "run": '"pair"',
            "file": '"table.csv"',
            "id": '"id"',
            "protection": '"no_noise"',
            "epochs": "3",
            "batch_size": "64",
            "cut_width": "4",
            "hidden": "[8]",
        } | {k: v for k, v in changes.items() if k in COMMON}
        own = {"label": '"y"', "record": '"1 MiB"'} | {
            k: v for k, v in changes.items() if k not in shared
        }
        paths = []
        for name, columns, settings in (
            ("label", ["id", "y", "x0", "x1"], shared | own),
            ("other", ["id", "x2", "x3"], shared),
        ):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            settings = settings | {
                "file": json.dumps(str(folder / "table.csv")),
                "folder": json.dumps(str(folder / "run")),
            }
            with (folder / "table.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, columns, extrasaction="ignore")
                writer.writeheader()
                writer.writerows(rows())
            paths.append(folder / "run.toml")
            paths[-1].write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))
        return paths

    return write


class CutError(Exception):
    """Ends a party in the middle of its training, as a crash does."""


class _CutAfter:
    """Ends a training after so many steps."""

    def __init__(self, steps):
        self._steps = steps

    def on_progress(self, step, steps, rows):
        if step == self._steps:
            raise CutError


def start(paths, *, recording=True, cut_after=None, **changes):
    """One start of both parties, as their commands make it; returns the label party's protection.

    Nothing is closed after a cut but the journals: a killed process leaves no more.
    """
    overrides = {name: str(value) for name, value in changes.items()}
    label = read_configuration(LabelConfiguration, paths[0], overrides)
    other = read_configuration(NonLabelConfiguration, paths[1], overrides)
    protection, recorders = label.applied, []

    def observe(agreement, canaries):
        if recording:
            recorders.append(open_recorder(label, agreement, canaries))
        return recorders

    kept = Persistence.in_folder(label.run_folder, label.protection_settings)
    top = LabelParty(
        label.table_file().read("label party", labelled=True).table,
        label.terms(),
        protection,
        lambda _, width, own: build_top(label, width, own),
        make_optimizer(label),
        noise=kept.key.noise(),
        observers=observe,
        progress=() if cut_after is None else (_CutAfter(cut_after),),
        persistence=kept,
    )
    bottom = NonLabelParty(
        other.table_file().read("non-label party", labelled=True).table,
        other.terms(),
        lambda own: build_bottom(other, own),
        make_optimizer(other),
        persistence=Persistence.in_folder(other.run_folder),
    )
    here, there = in_memory_pair()

    def play():
        with suppress(ConnectionLostError):
            bottom.run(there)
        there.close()

    with ThreadPoolExecutor(1) as thread:
        playing = thread.submit(play)
        try:
            with suppress(CutError):
                top.run(here)
        finally:
            here.close()
            playing.result()
            kept.close()
    for recorder in recorders if cut_after is None else ():
        recorder.close()
    return protection


def record(label_path, other_path):
    """A whole training with a recorder."""
    start((label_path, other_path))
    return read_configuration(LabelConfiguration, label_path).run_folder


def audited(folder, **changes):
    chosen = {"attacks": NAMED, "scope": SCOPE, "on_progress": follow} | changes
    return findings_of_recorded_run(folder, **chosen)


def follow(done, total):
    assert 0 < done <= total


def test_a_recorded_run_is_audited(configurations):
    folder = record(*configurations(protection='"residual:sigma=30"'))
    assert is_recorded_run(folder)
    findings = findings_of_recorded_run(folder, attacks=NAMED, scope=SCOPE, on_progress=follow)
    assert {applied.stage for applied in findings.applied} == {"residual"}
    assert (findings.messages_before, findings.messages_missing) == (0, [])
    kinds = {(r.attack, r.hints, r.releases, r.epochs) for r in findings.rows}
    assert kinds == {
        (attack, hints, releases, epochs)
        for attack, hints in (("norm", 0), ("received_cosine", 5))
        for releases, epochs in (("one", None), ("some", 1), ("some", 2), ("all", 3))
    }
    # Gaussian differential privacy: Phi(sqrt(E / 2) / sigma) after E visits.
    for row in findings.rows:
        visits = row.epochs or 1
        expected = torch.special.ndtr(torch.tensor((visits / 2) ** 0.5 / 30, dtype=torch.float64))
        assert row.guarantee.kind == "rigorous"
        assert row.guarantee.leak_auc == pytest.approx(float(expected), abs=1e-9)
        assert row.leak_auc_low <= row.leak_auc <= row.leak_auc_high


def test_a_recording_that_begins_later_says_so(configurations):
    """The key was set at the second start: what the first one sent, nobody can attack."""
    paths = configurations(protection='"residual:sigma=30"')
    start(paths, recording=False, epochs=1)
    start(paths)
    findings = audited(paths[0].parent / "run")
    sent = findings.messages_sent
    epoch = sent // 3
    assert sent == 3 * epoch
    assert (findings.messages_before, findings.messages_missing) == (epoch, [])
    assert findings.applied[0].releases == 2 * epoch
    # "After one epoch" would be a lie: the first epoch was not recorded.
    assert {row.releases for row in findings.rows} == {"one", "all"}
    said = " ".join([*(v.text for v in verdicts(findings)), *not_measured(findings)])
    assert f"the training since message {epoch + 1}" in said
    assert f"Messages 1 to {epoch}: an earlier start sent them" in said
    assert release_names(seen_by(findings))["all"] == f"from message {epoch + 1} on"
    (bound,) = {row.guarantee.leak_auc for row in findings.rows if row.releases == "all"}
    assert bound == pytest.approx(gaussian(3, 30), abs=1e-9)  # the bound counts all the same


def test_a_recording_that_ends_before_the_run_says_so(configurations):
    """The key was dropped at the last start, and the run's own findings are of the first."""
    paths = configurations(protection='"residual:sigma=30"')
    folder = paths[0].parent / "run"
    start(paths, epochs=2)
    first = audited(folder)
    write_findings(first.model_copy(update={"complete": True}), folder / "findings.json")
    assert audited(folder).complete
    start(paths, recording=False)
    findings = audited(folder)
    epoch = findings.messages_sent // 3
    assert findings.messages_missing == [(2 * epoch + 1, 3 * epoch)]
    assert not findings.complete  # the kept findings are of a shorter training
    said = " ".join([*(v.text for v in verdicts(findings)), *not_measured(findings)])
    assert f"Messages {2 * epoch + 1} to {3 * epoch}, the end of the run: sent, but not" in said
    assert "from the recorded messages" in said
    (bound,) = {row.guarantee.leak_auc for row in findings.rows if row.releases == "all"}
    assert bound == pytest.approx(gaussian(3, 30), abs=1e-9)


def test_a_hole_in_a_recording_is_named_and_stays_out_of_the_first_epochs(configurations):
    paths = configurations(protection='"residual:sigma=30"', epochs="4")
    start(paths, epochs=1)
    start(paths, recording=False, epochs=2)
    start(paths)
    findings = audited(paths[0].parent / "run", scope=replace(SCOPE, after=(1, 2, 3)))
    epoch = findings.messages_sent // 4
    assert findings.messages_missing == [(epoch + 1, 2 * epoch)]
    assert {row.epochs for row in findings.rows if row.releases == "some"} == {1}


def test_what_was_sent_before_the_record_is_told_by_the_folder(configurations):
    paths = configurations()
    folder = paths[0].parent / "run"
    start(paths, recording=False, epochs=1)
    epoch = audited_messages(folder)
    assert recorded_messages(folder, before=epoch) == 0
    start(paths, epochs=2)
    assert recorded_messages(folder, before=epoch) == 0
    assert recorded_messages(folder, before=2 * epoch) == epoch
    (folder / "messages" / "steps.json").write_text("torn")
    assert recorded_messages(folder, before=2 * epoch) == 0


def test_a_run_that_is_going_on_is_not_audited(configurations):
    """The audit's findings of a part once replaced those that the run wrote at its end."""
    folder = record(*configurations())
    with (
        only_process(folder, "label party: folder"),
        pytest.raises(ConfigurationError, match="audit: another process is working on"),
    ):
        audited(folder)
    assert audited(folder).rows


def test_an_audit_of_a_run_that_was_gone_on_with_meanwhile_says_so(configurations):
    folder = record(*configurations())
    journal = ReleaseJournal(folder / "journal", None, look_only=True)
    answered = journal.released
    journal.close()

    def go_on(done, total):
        if done == total:
            journal = ReleaseJournal(folder / "journal", None)
            journal.settle(answered, bytes(32), bytes(32))
            journal.close()

    message = f"had sent {answered} messages when the audit began, and {answered + 1} at its end"
    with pytest.raises(DataError, match=message):
        audited(folder, on_progress=go_on)


def test_marvells_bound_is_that_of_the_training_that_was_run(configurations):
    paths = configurations(protection='"marvell:s=4"')
    used = start(paths)
    findings = audited(paths[0].parent / "run")
    for row in findings.rows:
        assert row.guarantee.leak_auc == used.guarantee(row.epochs or 1).leak_auc
        assert "from a checkpoint, which are all." in row.guarantee.grounds
        assert "before the first batch" not in row.guarantee.grounds
    assert used.guarantee(1).leak_auc != leak_auc_bound(1 / 4)


def test_a_goal_that_was_exceeded_is_not_the_bound(configurations):
    """Noise that is planned for classes without spread does not reach it for those of a network."""
    paths = configurations(protection='"marvell:max_leak_auc=0.51,variances=zero"')
    used = start(paths)
    one = {r.guarantee.leak_auc for r in audited(paths[0].parent / "run").rows if r.epochs is None}
    assert one == {used.guarantee(1).leak_auc}
    assert used.guarantee(1).leak_auc != pytest.approx(0.51, abs=1e-6)


def test_an_interrupted_run_says_of_which_messages_its_bound_speaks(configurations):
    paths = configurations(protection='"marvell:s=4"', checkpoint_every="1000")
    label = read_configuration(LabelConfiguration, paths[0])
    folder = label.run_folder
    start(paths, epochs=1)
    epoch = audited_messages(folder)
    used = label.applied
    store = CheckpointStore(folder / "checkpoints")
    restore_protection(used, store.protection_state(epoch))
    start(paths, cut_after=epoch + 2)
    findings = audited(folder)
    assert findings.messages_sent == epoch + 2
    assert findings.messages_missing == [(epoch + 1, epoch + 2)]  # the crash took them
    bounds = {row.guarantee.leak_auc for row in findings.rows if row.releases == "all"}
    assert bounds == {used.guarantee(2).leak_auc}
    (grounds,) = {row.guarantee.grounds for row in findings.rows if row.releases == "all"}
    assert f"those of messages 1 to {epoch}, from a checkpoint; later ones" in grounds


def test_what_makes_the_audit_fail_is_found_before_the_attacks(configurations):
    paths = configurations(protection='"marvell:s=4"')
    start(paths)
    folder = paths[0].parent / "run"
    (folder / "findings.json").write_text("{}")

    def never(done, total):
        raise AssertionError("an attack was run")

    with pytest.raises(DataError, match=r"findings\.json does not follow"):
        audited(folder, on_progress=never)


def test_without_a_checkpoint_marvell_promises_nothing(configurations):
    paths = configurations(protection='"marvell:s=4"')
    start(paths)
    folder = paths[0].parent / "run"
    shutil.rmtree(folder / "checkpoints")
    for row in audited(folder).rows:
        assert (row.guarantee.kind, row.guarantee.leak_auc) == ("none", None)
        assert "no checkpoint that tells of them is left" in row.guarantee.grounds


def test_the_messages_of_one_batch_are_attacked_together(configurations):
    paths = configurations(micro_batches="2", batch_size="64")
    start(paths)
    findings = audited(paths[0].parent / "run")
    batches = {row.batches for row in findings.rows if row.releases == "one"}
    assert max(batches) == findings.messages_sent / 2
    assert findings.applied[0].releases == findings.messages_sent
    assert "were attacked as one release" in findings.applied[0].statement


def gaussian(visits, sigma):
    """Gaussian differential privacy: Phi(sqrt(E / 2) / sigma) after E visits."""
    return float(torch.special.ndtr(torch.tensor((visits / 2) ** 0.5 / sigma, dtype=torch.float64)))


def audited_messages(folder):
    """How many messages a run has sent, by the size of its journal."""
    with (folder / "journal").open("rb") as file:
        file.readline()
        return len(file.read()) // ENTRY_BYTES


def test_a_run_that_may_stop_on_its_audit_promises_nothing(configurations):
    folder = record(*configurations(protection='"residual:sigma=30"', stop_above="0.9"))
    findings = findings_of_recorded_run(folder, attacks=NAMED, scope=SCOPE, on_progress=follow)
    for row in findings.rows:
        assert (row.guarantee.kind, row.guarantee.leak_auc) == ("none", None)
        assert "moment of stopping" in row.guarantee.grounds


def test_a_recording_without_context_or_messages_is_named(configurations):
    folder = record(*configurations())
    (folder / "messages" / "recording.json").write_text("{}")
    with pytest.raises(DataError, match=r"recording\.json is missing or damaged"):
        findings_of_recorded_run(folder, attacks=NAMED, scope=SCOPE, on_progress=follow)


def test_a_canary_run_reads_coins_beside_the_bound(configurations, tmp_path):
    paths = configurations(protection='"no_noise"')
    findings = findings_of_canary_run(
        *paths,
        canaries=100,
        folder=tmp_path / "coins",
        attacks={"cosine": ATTACKS["cosine"], **NAMED},
        scope=SCOPE,
        on_progress=follow,
    )
    assert {row.target for row in findings.rows} == {"canaries"}
    assert {row.layer for row in findings.rows} == {"cut", "first"}
    worst = max(row.leak_auc for row in findings.rows if row.releases == "all")
    # Without noise coins are read from the gradient. How well depends on weights that are drawn
    # anew each time (.917 was seen); chance stays below 5 sqrt(101 / (12 x 50 x 50)) from a half.
    assert worst > 0.5 + 5 * 0.058
    assert {b.name for b in findings.baselines} == {"prior", "features", "features_half"}
    for baseline in findings.baselines:
        assert abs(baseline.leak_auc - 0.5) < 5 * 0.083  # sqrt(51 / (12 x 25 x 25)) for a half


def coins(paths, folder, **changes):
    chosen = {"canaries": 100, "attacks": NAMED, "scope": SCOPE, "on_progress": follow}
    return findings_of_canary_run(*paths, folder=folder, **(chosen | changes))


def test_a_canary_run_that_cannot_read_a_file_leaves_no_folder(configurations, tmp_path):
    paths = configurations()
    (paths[1].parent / "table.csv").unlink()
    with pytest.raises(DataError, match="does not exist"):
        coins(paths, tmp_path / "coins")
    assert not (tmp_path / "coins").exists()


def test_a_canary_run_takes_the_records_that_were_aligned_in_private(configurations, tmp_path):
    """The parties' files hold others too, and the two lists of those differ."""
    paths = configurations(alignment='"private"')
    shared = [row["id"] for row in rows()[100:]]
    for path in paths:
        write_aligned_ids(path.parent / "run" / "aligned_ids.parquet", TextSequence(sorted(shared)))
    table = paths[1].parent / "table.csv"
    table.write_text(
        "\n".join(table.read_text().split("\n")[:1] + table.read_text().split("\n")[51:])
    )
    findings = coins(paths, tmp_path / "coins")
    assert findings.train_records + findings.test_records in range(200, 301)
    assert findings.rows


def test_a_canary_run_states_the_bound_of_what_it_trained(configurations, tmp_path):
    findings = coins(configurations(protection='"marvell:s=4"'), tmp_path / "coins")
    for row in findings.rows:
        assert row.guarantee.kind == "model"
        assert "before the first batch" not in row.guarantee.grounds
    one = {row.guarantee.leak_auc for row in findings.rows if row.releases == "one"}
    assert leak_auc_bound(1 / 4) not in one


def test_a_canary_run_joins_the_messages_of_one_batch(configurations, tmp_path):
    findings = coins(configurations(micro_batches="4"), tmp_path / "coins")
    ones = [row for row in findings.rows if row.releases == "one"]
    assert {row.layer for row in ones} == {"cut", "first"}
    batches = max(row.batches + row.one_class_batches for row in ones)
    assert batches == findings.messages_sent / 4


def test_a_canary_run_without_messages_is_refused(configurations, tmp_path):
    with pytest.raises(ConfigurationError, match="frozen sends no gradient"):
        findings_of_canary_run(
            *configurations(protection='"frozen"'),
            canaries=10,
            folder=tmp_path / "coins",
            attacks=None,
            scope=SCOPE,
            on_progress=follow,
        )


def test_the_recording_is_private(configurations):
    folder = record(*configurations())
    assert (folder / "messages").stat().st_mode & 0o077 == 0
    assert not (folder / "findings.json").exists()
    with pytest.raises(DataError):
        read_findings(folder / "findings.json")
