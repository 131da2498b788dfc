"""Whole sweeps by the command, as a user starts them: ended, killed, gone on with, failing."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutlayer.errors import ConfigurationError
from cutlayer.experiments.tradeoff.configuration import checked, keep_configuration
from cutlayer.experiments.tradeoff.projection import projected
from cutlayer.experiments.tradeoff.result import read_failure, run_folder, state_of
from cutlayer.experiments.tradeoff.sweep import run_sweep, runs_left
from cutlayer.experiments.tradeoff.training import run_and_keep

SWEEP = """
data = "breast-cancer"
epochs = 2
batch_size = 64
hidden = [8]
cut_width = 4
seeds = [{seeds}]
audit_every = 4
protections = [{protections}]
"""


def write(folder, protections, seeds="0"):
    texts = ", ".join(f'"{text}"' for text in protections)
    path = folder / "tiny.toml"
    path.write_text(SWEEP.format(seeds=seeds, protections=texts))
    return path


def start(config, *options, said=subprocess.PIPE):
    """The command in a process of its own, as its own group."""
    command = [sys.executable, "-m", "cutlayer", "tradeoff", str(config), *options]
    return subprocess.Popen(
        command,
        cwd=config.parent,
        stdout=said,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        start_new_session=True,
    )


def finished(folder):
    return {path.parent.name: path.read_bytes() for path in folder.glob("runs/*/result.json")}


def children_of(pid):
    return [
        int(word)
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if Path(f"/proc/{word}").exists()
    ]


@pytest.mark.slow
def test_a_killed_sweep_loses_what_was_in_flight_and_no_more(tmp_path):
    config = write(tmp_path, ["no_noise", "isotropic:t=[1,4]", "max_norm", "marvell:s=4"])
    folder = tmp_path / "runs" / "tradeoff-tiny"
    first = start(config, "--workers", "1")
    deadline = time.monotonic() + 120
    while len(finished(folder)) < 2:
        assert time.monotonic() < deadline
        assert first.poll() is None, first.stdout.read()
        time.sleep(0.02)
    workers = children_of(first.pid)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    while any(_alive(worker) for worker in workers):  # a worker ends with its parent
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = finished(folder)
    begun = {path.name for path in (folder / "runs").iterdir()}
    assert len(begun - set(before)) <= 1  # in flight: at most one for each worker
    second = start(config, "--workers", "1")
    said, _ = second.communicate(timeout=180)
    assert second.returncode == 0, said
    assert f"{len(before)} of 5 runs have ended before" in said
    assert "core-hours" in said
    after = finished(folder)
    assert len(after) == 5
    assert {name: after[name] for name in before} == before  # byte for byte
    left = [path.name for path in folder.glob("runs/*/*")]
    assert set(left) == {"result.json", "details.json"}  # transcripts hold labels: deleted
    assert (folder / "report.html").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_sweep_whose_processes_are_all_killed_again_and_again_ends_the_same(tmp_path):
    protections = ["no_noise", "isotropic:t=[1,4]", "max_norm", "marvell:s=4", "residual:sigma=2"]
    config = write(tmp_path, protections)
    undisturbed = start(config, "--workers", "2", "--out", "undisturbed")
    said, _ = undisturbed.communicate(timeout=600)
    assert undisturbed.returncode == 0, said
    folder, kept, kills = tmp_path / "killed", {}, 0
    # Right at the start, within a run, and as soon as one more run has ended.
    for begun, ended in ((0, 0), (1, 0), (0, 1), (3, 0), (0, 3), (0, 4)):
        sweep = start(config, "--workers", "2", "--out", "killed", said=subprocess.DEVNULL)
        deadline = time.monotonic() + 300
        while not folder.exists() or (
            len(list(folder.glob("runs/*"))) < begun or len(finished(folder)) < ended
        ):
            assert time.monotonic() < deadline
            assert sweep.poll() is None
            time.sleep(0.005)
        os.killpg(sweep.pid, signal.SIGKILL)
        sweep.wait()
        kills += 1
        now = finished(folder)
        assert {name: now.get(name) for name in kept} == kept  # what had ended stays
        kept = now
    last = start(config, "--workers", "2", "--out", "killed")
    said, _ = last.communicate(timeout=600)
    assert last.returncode == 0, said
    assert kills == 6
    for table in ("summary.csv", "claims.csv", "runs.csv"):
        found = (folder / table).read_bytes()
        assert found == (tmp_path / "undisturbed" / table).read_bytes(), table
    assert len(finished(folder)) == 6
    assert not list(folder.rglob("*.partial"))


def test_a_second_process_is_kept_out_and_touches_nothing(tmp_path):
    settings = {"data": "breast-cancer", "protections": ["no_noise"], "seeds": [0]}
    configuration = checked(settings | {"epochs": 1, "batch_size": 64, "audit_every": 4})
    seen = []

    def second():
        if not seen:
            mark = run_folder(tmp_path, configuration.runs[0])
            before = mark.exists()
            with pytest.raises(ConfigurationError, match="another process is working on"):
                run_sweep(configuration, tmp_path, lambda: None)
            seen.append((before, mark.exists()))

    run_sweep(configuration, tmp_path, second)
    assert seen
    assert seen[0][0] == seen[0][1]
    assert state_of(tmp_path, configuration.runs[0]) == "done"


def _alive(pid):
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_failing_run_is_kept_and_shown(tmp_path):
    # Batches of 2 records: sooner or later one holds one class, which statistics=batch refuses.
    config = write(tmp_path, ["no_noise", "marvell:s=4,statistics=batch"])
    sweep = start(config, "--batch_size", "2", "--epochs", "1", "--rows", "60")
    said, _ = sweep.communicate(timeout=180)
    assert sweep.returncode == 0, said
    assert "Failed: marvell:s=4,statistics=batch, seed 0: ProtectionError" in said
    folder = tmp_path / "runs" / "tradeoff-tiny"
    assert len(finished(folder)) == 1
    failure = json.loads(
        (folder / "runs" / "marvell-s-4-statistics-batch-seed-0" / "failure.json").read_text()
    )
    assert failure["error"].startswith("ProtectionError")
    page = (folder / "report.html").read_text()
    assert "Runs that failed" in page
    assert "ProtectionError" in page
    assert "failed" in (folder / "runs.csv").read_text()


def test_a_sweep_of_which_every_run_fails_still_has_its_page(tmp_path):
    config = write(tmp_path, ["no_noise"])
    sweep = start(config, "--batch_size", "100000")
    said, _ = sweep.communicate(timeout=180)
    assert sweep.returncode == 1, said
    assert "Failed: no_noise, seed 0: ConfigurationError" in said
    assert "Traceback" not in said
    assert "Runs that failed" in (tmp_path / "runs" / "tradeoff-tiny" / "report.html").read_text()


def test_a_run_whose_process_dies_is_a_failure_and_the_others_go_on(tmp_path, monkeypatch):
    # The worker is told to die by the data: a file that ends the process when it is read.
    configuration = checked(
        {"data": "breast-cancer", "protections": ["no_noise", "max_norm"], "seeds": [0]}
        | {"epochs": 1, "batch_size": 64, "audit_every": 4}
    )
    broken = configuration.runs[0]
    monkeypatch.setattr("cutlayer.experiments.tradeoff.sweep.run_and_keep", _dying)
    run_sweep(configuration, tmp_path / "sweep", lambda: None)
    assert "process died" in read_failure(tmp_path / "sweep", broken).error
    assert state_of(tmp_path / "sweep", configuration.runs[1]) == "done"
    assert runs_left(configuration, tmp_path / "sweep") == []
    assert runs_left(configuration, tmp_path / "sweep", retry_failed=True) == [broken]


def _dying(configuration, run, folder):
    """In place of a run: one of them takes its process with it."""
    if run.spec == "no_noise":
        folder.mkdir(parents=True, exist_ok=True)
        os._exit(9)
    run_and_keep(configuration, run, folder)


def test_a_kept_transcript_stays(tmp_path):
    configuration = checked(
        {"data": "breast-cancer", "protections": ["no_noise"], "keep_transcripts": True}
        | {"epochs": 1, "batch_size": 64, "audit_every": 4}
    )
    keep_configuration(configuration, tmp_path)
    run = configuration.runs[0]
    run_and_keep(configuration, run, run_folder(tmp_path, run))
    names = {path.name for path in run_folder(tmp_path, run).iterdir()}
    assert names == {"label_party", "handed_over", "result.json", "details.json"}


def test_a_projection_multiplies_what_a_step_takes():
    configuration = checked(
        {"data": "breast-cancer", "protections": ["no_noise", "max_norm"], "epochs": 3}
        | {"batch_size": 64, "audit_every": 2, "seeds": [0, 1]}
    )
    projection = projected(configuration, configuration.runs)
    # 569 records, 455 of them for training: 7 batches of 64 an epoch, 21 steps, 11 of them audited.
    assert (projection.runs, projection.steps) == (4, 21)
    seconds = 4 * (21 * projection.step_seconds + 11 * projection.audit_seconds)
    assert projection.core_hours == pytest.approx(seconds / 3600)
    assert "core-hours" in projection.sentence(2)


@pytest.fixture
def little_memory():
    """At most 4 GiB more than this process has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (4 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the /proc of Linux")
@pytest.mark.usefixtures("little_memory")
def test_a_network_beyond_memory_gives_no_projection_and_a_failed_run(tmp_path):
    configuration = checked(
        {"data": "breast-cancer", "protections": ["no_noise"], "seeds": [0]}
        | {"epochs": 1, "batch_size": 64, "hidden": [65536, 65536]}  # 16 GiB of weights
    )
    [run] = configuration.runs
    assert projected(configuration, [run]) is None
    run_and_keep(configuration, run, run_folder(tmp_path, run))
    assert state_of(tmp_path, run) == "failed"
