"""Recording a run and attacking it afterwards, with both parties in this process."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from cutlayer.attacks import ATTACKS
from cutlayer.audits import AuditScope
from cutlayer.audits.findings import read_findings
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.parties import LabelParty, NonLabelParty
from cutlayer.protocol import in_memory_pair
from cutlayer.rng import SecretNoise
from cutlayer.runs.canary_run import findings_of_canary_run
from cutlayer.runs.configuration import (
    LabelConfiguration,
    NonLabelConfiguration,
    read_configuration,
)
from cutlayer.runs.halves import build_bottom, build_top
from cutlayer.runs.party_runs import make_optimizer
from cutlayer.runs.recorded_run import findings_of_recorded_run
from cutlayer.runs.recording import is_recorded_run, open_recorder
from tests.runs.test_two_commands import rows

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
        } | {k: v for k, v in changes.items() if k in ("protection", "epochs")}
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


def record(label_path, other_path):
    """Train with a recorder, as the label-party command does."""
    label = read_configuration(LabelConfiguration, label_path)
    other = read_configuration(NonLabelConfiguration, other_path)
    recorders = []

    def observe(agreement, canaries):
        recorders.append(open_recorder(label, agreement, canaries))
        return recorders

    top = LabelParty(
        label.table_file().read("label party", labelled=True).table,
        replace(label.terms(), order="seed"),
        label.applied,
        lambda _, width, own: build_top(label, width, own),
        make_optimizer(label),
        noise=SecretNoise(),
        observers=observe,
    )
    bottom = NonLabelParty(
        other.table_file().read("non-label party", labelled=True).table,
        replace(other.terms(), order="seed"),
        lambda own: build_bottom(other, own),
        make_optimizer(other),
    )
    here, there = in_memory_pair()
    with ThreadPoolExecutor(1) as thread:
        playing = thread.submit(bottom.run, there)
        top.run(here)
        playing.result()
    for recorder in recorders:
        recorder.close()
    return label.run_folder


def follow(done, total):
    assert 0 < done <= total


def test_a_recorded_run_is_audited(configurations):
    folder = record(*configurations(protection='"residual:sigma=30"'))
    assert is_recorded_run(folder)
    findings = findings_of_recorded_run(
        folder, attacks=NAMED, scope=SCOPE, on_progress=follow
    )
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


def test_a_run_that_may_stop_on_its_audit_promises_nothing(configurations):
    folder = record(*configurations(protection='"residual:sigma=30"', stop_above="0.9"))
    findings = findings_of_recorded_run(folder, attacks=NAMED, scope=SCOPE, on_progress=follow)
    for row in findings.rows:
        assert (row.guarantee.kind, row.guarantee.leak_auc) == ("none", None)
        assert "moment of stopping" in row.guarantee.grounds


def test_a_recording_without_context_or_messages_is_named(configurations):
    folder = record(*configurations())
    (folder / "messages" / "recording.json").write_text("{}")
    with pytest.raises(DataError, match="recording.json is missing or damaged"):
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
    assert worst > 0.95  # without noise every coin is read from the gradient
    assert {b.name for b in findings.baselines} == {"prior", "features", "features_half"}
    for baseline in findings.baselines:
        assert abs(baseline.leak_auc - 0.5) < 5 * 0.083  # sqrt(51 / (12 x 25 x 25)) for a half


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
