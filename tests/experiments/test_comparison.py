import json
import signal
import subprocess
import sys
import tempfile
import time

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from cutlayer.data import DATASETS, BatchSchedule, Encoder, Split
from cutlayer.durable import only_process
from cutlayer.errors import ConfigurationError, ConnectionLostError, DataError
from cutlayer.experiments.channel import PeerProcess
from cutlayer.experiments.comparison import (
    pending,
    run_comparison,
    training_folder,
)
from cutlayer.experiments.findings_of_run import findings_of_run
from cutlayer.experiments.plan import Training, make_plan, read_plan
from cutlayer.experiments.result import read_result
from cutlayer.experiments.two_parties import make_bottom, make_optimizer
from cutlayer.models import Top


class Quiet:
    """Follows a comparison in silence; may interrupt it."""

    def __init__(self, interrupt_at=None):
        self.trainings, self.interrupt_at = [], interrupt_at

    def on_training(self, training, done, total):
        self.trainings.append(training.name)
        if len(self.trainings) == self.interrupt_at:
            raise KeyboardInterrupt

    def on_release(self, release, labels, clean_gradient):
        pass

    def on_progress(self, step, steps, rows):
        pass


def small(**changes):
    settings = {
        "data": "breast-cancer",
        "protections": ("no_noise", "residual:max_leak_auc=0.7"),
        "splits": 2,
        "epochs": 2,
        "batch_size": 64,
        "cut_width": 8,
        "canaries": 100,
        "simulated": True,
        **changes,
    }
    return make_plan(**settings)


def ignore(name, done, total):
    pass


def monolithic(plan, training):
    """One model, one process, plain torch: what the two processes must reproduce."""
    torch.set_num_threads(1)
    data = DATASETS[plan.data]().load()
    ids = tuple(sorted(data.label_party.ids))
    own, features = data.label_party.ordered_by(ids), data.non_label_party.ordered_by(ids)
    split = Split.by_fold(ids, seed=plan.seed, folds=plan.folds, test_fold=training.split)
    train_ids = tuple(ids[i] for i in split.train)
    x_own = Encoder.fit(own.ordered_by(train_ids)).encode(own)
    x = Encoder.fit(features.ordered_by(train_ids)).encode(features)
    bottom = make_bottom(plan, training, x.shape[1])
    top = Top(plan.cut_width, x_own.shape[1], [plan.hidden_width], plan.generator(training, "top"))
    optimizer = make_optimizer(plan)([*bottom.parameters(), *top.parameters()])
    for part in BatchSchedule(len(split.train), plan.batch_size, plan.epochs, plan.seed):
        rows = split.train[part.positions]
        logit = top(bottom(x[rows]), x_own[rows])
        loss = functional.binary_cross_entropy_with_logits(logit, own.labels[rows].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return bottom.state_dict(), top.state_dict()


def test_two_processes_train_what_one_process_trains_bit_for_bit(tmp_path):
    plan = small(protections=("no_noise",), baselines=(), splits=1, canaries=0, simulated=False)
    run_comparison(plan, tmp_path / "run", Quiet())
    (training,) = plan.trainings
    folder = training_folder(tmp_path / "run", training)
    bottom, top = monolithic(plan, training)
    kept_bottom = load_file(folder / "non_label_party" / "bottom.safetensors")
    kept_top = load_file(folder / "label_party" / "top.safetensors")
    assert kept_bottom.keys() == bottom.keys()
    assert all(torch.equal(kept_bottom[name], bottom[name]) for name in bottom)
    assert all(torch.equal(kept_top[name], top[name]) for name in top)
    findings = findings_of_run(plan, tmp_path / "run", None, ignore)
    assert findings.processes == 2
    assert findings.noise == "secret"
    assert findings.first_layer == "measured"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    plan = small()
    run_comparison(plan, folder, Quiet())
    return plan, folder


def test_a_run_is_a_folder_with_everything_in_it(finished):
    plan, folder = finished
    assert read_plan(folder) == plan
    assert pending(plan, folder) == []
    # 2 protections and 2 baselines on 2 splits, and 2 trainings with canaries
    assert len(plan.trainings) == 2 * (2 + 2) + 2
    residual = folder / "trainings" / "01-residual-split-0" / "label_party"
    assert {p.name for p in residual.iterdir()} >= {
        "message_top.safetensors",
        "prediction_top.safetensors",
        "encoder.json",
        "transcript",
        "truth.safetensors",
        "hints.safetensors",
    }


def test_the_non_label_partys_files_hold_no_label_and_no_clean_gradient(finished):
    _, folder = finished
    for path in folder.glob("trainings/*/non_label_party/**/*.safetensors"):
        assert not {name for name in load_file(path) if "label" in name or "clean" in name}
    names = {p.name for p in folder.glob("trainings/*/non_label_party/**/*")}
    assert not {n for n in names if "truth" in n or "hint" in n or "top" in n}


def test_findings_say_what_was_sent_and_what_it_leaked(finished):
    plan, folder = finished
    findings = findings_of_run(plan, folder, None, ignore)
    assert findings.complete
    assert findings.noise == "simulation: noise is reproducible"
    by_key = {(r.protection, r.attack, r.layer, r.releases, r.target): r for r in findings.rows}
    assert by_key["no_noise", "cosine", "cut", "one", "labels"].leak_auc >= 0.99
    assert by_key["no_noise", "cosine", "first", "one", "labels"].leak_auc >= 0.99
    for row in findings.rows:
        if row.protection == "residual" and row.target == "canaries":
            assert row.leak_auc <= row.guarantee.leak_auc + 5 * row.null_deviation
    train = findings.train_records
    assert {(a.protection, a.rows) for a in findings.applied} == {
        ("no_noise", 2 * train),
        ("residual", 2 * train),
    }
    assert {u.protection for u in findings.utility} == {
        "no_noise",
        "residual",
        "label_party_alone",
        "frozen",
    }
    assert all(len(u.test_auc) == 2 for u in findings.utility)


def test_utility_is_the_mean_of_the_kept_results(finished):
    plan, folder = finished
    findings = findings_of_run(plan, folder, ["norm"], ignore)
    kept = [
        read_result(training_folder(folder, t)).test_auc
        for t in plan.trainings
        if t.spec == "no_noise" and not t.canaries
    ]
    row = next(r for r in findings.rows if r.protection == "no_noise")
    assert row.test_auc == pytest.approx(sum(kept) / 2)
    # two values: their standard error is half their distance
    assert row.test_auc_error == pytest.approx(abs(kept[0] - kept[1]) / 2)
    assert {r.attack for r in findings.rows} == {"norm", None}


def test_a_simulation_repeats_itself(finished, tmp_path):
    plan, folder = finished
    run_comparison(plan, tmp_path / "again", Quiet())
    for training in plan.trainings:
        first = read_result(training_folder(folder, training))
        again = read_result(training_folder(tmp_path / "again", training))
        assert (first.test_auc, first.test_loss) == (again.test_auc, again.test_loss)


def test_an_interrupted_run_keeps_what_was_done_and_goes_on(tmp_path):
    plan = small()
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run_comparison(plan, folder, Quiet(interrupt_at=3))
    assert len(pending(plan, folder)) == len(plan.trainings) - 2
    findings = findings_of_run(plan, folder, ["norm"], ignore)
    assert not findings.complete
    watcher = Quiet()
    run_comparison(plan, folder, watcher)
    assert watcher.trainings == [t.name for t in plan.trainings[2:]]
    assert pending(plan, folder) == []


def test_another_plan_is_not_written_into_a_run(finished):
    plan, folder = finished
    with pytest.raises(ConfigurationError, match="--out"):
        run_comparison(small(epochs=3), folder, Quiet())
    assert read_plan(folder) == plan


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigurationError, match="not empty"):
        run_comparison(small(), tmp_path, Quiet())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_processes_in_one_folder_do_not_meet(finished):
    plan, folder = finished
    with only_process(folder, "test"), pytest.raises(ConfigurationError, match="another process"):
        run_comparison(plan, folder, Quiet())


def test_missing_recordings_are_not_taken_for_whole(tmp_path):
    plan = small(splits=1, canaries=0, protections=("no_noise",), baselines=())
    run_comparison(plan, tmp_path / "run", Quiet())
    next(iter((tmp_path / "run").glob("trainings/*/label_party/transcript/chunk-*"))).unlink()
    with pytest.raises(DataError, match="releases that were sent"):
        findings_of_run(plan, tmp_path / "run", None, ignore)


def test_a_training_whose_other_half_was_lost_is_done_again(tmp_path):
    plan = small(splits=1, canaries=0, protections=("no_noise",), baselines=())
    run_comparison(plan, tmp_path / "run", Quiet())
    (path,) = (tmp_path / "run").glob("trainings/*/non_label_party/bottom.safetensors")
    path.unlink()
    assert [t.name for t in pending(plan, tmp_path / "run")] == [plan.trainings[0].name]


def test_a_damaged_result_is_named(finished, tmp_path):
    plan = small(splits=1, canaries=0, protections=("no_noise",), baselines=())
    run_comparison(plan, tmp_path / "run", Quiet())
    (path,) = (tmp_path / "run").glob("trainings/*/result.json")
    path.write_text('{"protection": "no_noise"')
    with pytest.raises(DataError, match=r"result\.json"):
        findings_of_run(plan, tmp_path / "run", None, ignore)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"data": "titanic"}, "caravan, breast-cancer"),
        ({"protections": ("marvel:s=4",)}, "no_noise, isotropic"),
        ({"protections": ("marvell:s=-1",)}, "above 0"),
        ({"protections": ("marvell:strength=4",)}, "Settings of marvell: s,"),
        ({"protections": ("marvell:s",)}, "write s=VALUE"),
        ({"protections": ("marvell:s=4,s=5",)}, "s is given twice"),
        ({"protections": ("isotropic:t=much",)}, "isotropic:t=much"),
        ({"protections": ("no_noise", "no_noise")}, "twice"),
        ({"protections": ("isotropic:t=1", "isotropic:t=1.0")}, "twice, in other words"),
        ({"protections": ("frozen",)}, "baseline"),
        ({"epochs": 0}, "--epochs"),
        ({"splits": 9}, "--splits"),
        ({"batch_size": 1}, "--batch-size"),
        ({"learning_rate": float("nan")}, "--learning-rate"),
        ({"seed": -1}, "--seed"),
        ({"baselines": ("oracle",)}, "label_party_alone"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(changes, rule):
    with pytest.raises(ConfigurationError, match=rule):
        small(**changes)


def peer(folder, port):
    identity = folder / "identity"
    command = [sys.executable, "-m", "cutlayer.experiments.peer", folder, port, identity]
    return subprocess.Popen(
        list(map(str, command)),
        stderr=subprocess.PIPE,
    )


def test_a_peer_process_without_a_run_folder_says_so_and_ends(tmp_path):
    process = peer(tmp_path, 9)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"plan.json" in said


def test_a_demo_speaks_as_two_organisations_do_and_leaves_no_keys_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "keys"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "keys").mkdir()
    (tmp_path / "run").mkdir()
    channel = PeerProcess(tmp_path / "run")
    keys = list((tmp_path / "keys").rglob("*.key"))
    assert sorted(key.name for key in keys) == ["label-party.key", "non-label-party.key"]
    assert "gRPC over TLS" in channel.listener.describe()
    with pytest.raises(ConnectionLostError, match=r"has no plan\.json"), channel:  # its last words
        channel.open(Training("no_noise", 0, 0, 1, audited=False, name="no_noise"), tmp_path)
    assert list((tmp_path / "keys").iterdir()) == []


def test_a_killed_peer_process_is_noticed(tmp_path):
    plan = small(
        protections=("no_noise",),
        baselines=(),
        splits=1,
        canaries=0,
        simulated=False,
        epochs=100000,
    )

    class Killer(Quiet):
        def on_progress(self, step, steps, rows):
            if step == 20:
                own = subprocess.run(
                    ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True
                )
                for line in own.stdout.splitlines():
                    if "cutlayer.experiments.peer" in line and str(tmp_path) in line:
                        subprocess.run(["kill", "-9", line.split()[0]])

    began = time.monotonic()
    with pytest.raises(ConnectionLostError):
        run_comparison(plan, tmp_path / "run", Killer())
    assert time.monotonic() - began < 60  # not the step deadline of 120 s


@pytest.mark.parametrize("stop", [signal.SIGINT])
def test_ctrl_c_ends_both_processes_and_keeps_the_run(tmp_path, stop):
    command = [
        sys.executable,
        "-m",
        "cutlayer",
        "demo",
        "--data",
        "breast-cancer",
        "--epochs",
        "60",
        "--batch-size",
        "64",
        "--out",
        str(tmp_path / "run"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("run/trainings/*/result.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(stop)
    said, complained = process.communicate(timeout=120)
    assert process.returncode == 130, complained
    assert "Go on with the same command" in said
    findings = json.loads((tmp_path / "run" / "findings.json").read_text())
    assert findings["complete"] is False
    assert (tmp_path / "run" / "report.html").exists()
    log = (tmp_path / "run" / "non_label_party.log").read_text()
    assert "Traceback" not in log
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path / "run") not in listed
