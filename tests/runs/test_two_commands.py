"""Two parties, two files, two commands: as processes, on generated files."""

import csv
import gzip
import json
import shutil
import stat
import time

import polars as pl
import pytest
import torch
from safetensors.torch import load_file

from cutlayer.protections import Residual
from tests.runs.command import Command


def rows(count=400, seed=0):
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randn(count, 4, generator=g)
    label = (numbers.sum(dim=1) + torch.randn(count, generator=g) > 0.7).long()
    return [
        {
            "id": f"{i:05d}",
            "patient": f"p{i // 2}",
            "y": int(label[i]),
            **{f"x{k}": round(float(numbers[i, k]), 6) for k in range(4)},
        }
        for i in range(count)
    ]


class Pair:
    """Two folders with a file and a configuration each."""

    def __init__(self, folder, port):
        self.folder = folder
        self.rows = rows()
        self.port = port
        self.settings = {
            "run": '"pair"',
            "protection": '"no_noise"',
            "epochs": "3",
            "batch_size": "32",
            "cut_width": "4",
            "hidden": "[8]",
            "address": f'"127.0.0.1:{port}"',
            "id": '"id"',
            "wait": "30",
            "insecure_loopback": "true",
        }
        self.own = {"label": {"label": '"y"'}, "other": {}}
        for party in ("label", "other"):
            (folder / party).mkdir()
        self.write_table("label", ["id", "y", "x0", "x1"])
        self.write_table("other", ["id", "x2", "x3"], reverse=True)

    def write_table(self, party, columns, *, reverse=False, table=None, name="table.csv"):
        table = table if table is not None else self.rows
        with (self.folder / party / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(reversed(table) if reverse else table)

    def write_configurations(self, **changes):
        for party in ("label", "other"):
            settings = {"file": '"table.csv"', **self.settings, **self.own[party], **changes}
            text = "".join(f"{key} = {value}\n" for key, value in settings.items())
            (self.folder / party / "run.toml").write_text(text)

    def start(self, party, *options, command=None):
        command = command or ("label-party" if party == "label" else "non-label-party")
        return Command([command, "run.toml", *options], self.folder / party)

    def run(self, *, label=(), other=(), command=None, first="other", pause=0.0):
        order = ["other", "label"] if first == "other" else ["label", "other"]
        options = {"label": label, "other": other}
        processes = {}
        for party in order:
            processes[party] = self.start(party, *options[party], command=command)
            time.sleep(pause)
        done = {}
        for party, process in processes.items():
            out, err = process.communicate(timeout=120)
            done[party] = (process.returncode, out, err)
        return done

    def kept(self, party):
        return (
            self.folder
            / party
            / "runs"
            / "pair"
            / f"{'' if party == 'label' else 'non-'}label-party"
        )


@pytest.fixture
def pair(tmp_path, unused_port):
    made = Pair(tmp_path, unused_port)
    made.write_configurations()
    return made


def assert_ended_well(done):
    for party, (status, out, err) in done.items():
        assert status == 0, (party, out, err)


@pytest.mark.parametrize("first", ["label", "other"])
def test_either_party_may_start_first(pair, first):
    done = pair.run(first=first, pause=1.0)
    assert_ended_well(done)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert findings["noise"] == "secret"
    assert findings["rows"][0]["protection"] == "no_noise"
    assert (pair.kept("label") / "report.html").exists()
    predictions = pl.read_csv(
        pair.kept("label") / "predictions.csv", schema_overrides={"id": pl.String}
    )
    assert set(predictions["part"]) == {"validation", "test"}
    assert predictions["id"].str.len_chars().unique().to_list() == [5]  # 00007 keeps its zeros
    assert "Test AUC" in done["label"][1]
    assert "AUC" not in done["other"][1]
    for _, out, _ in done.values():
        assert "has ended before" not in out
    # The folder is closed already; a file that somebody copies out of it stays so.
    for kept in (pair.kept("label"), pair.kept("other")):
        files = [path for path in kept.rglob("*") if path.is_file()]
        assert {"encoder.json"} <= {path.name for path in files}
        open_to_others = {path.name for path in files if path.stat().st_mode & 0o077}
        assert not open_to_others


def test_records_of_one_party_only_are_counted(pair):
    pair.write_table("other", ["id", "x2", "x3"], table=pair.rows[100:])
    done = pair.run()
    assert_ended_well(done)
    assert "100 records of the label party, 0 of the non-label party" in done["label"][1]
    assert "0 records of the non-label party, 100 of the label party" in done["other"][1]


def test_the_split_keeps_patients_together(pair):
    pair.write_table("label", ["id", "patient", "y", "x0", "x1"])
    pair.write_table("other", ["id", "patient", "x2", "x3"])
    pair.write_configurations(group='"patient"')
    assert_ended_well(pair.run())
    held_out = pl.read_csv(
        pair.kept("label") / "predictions.csv", schema_overrides={"id": pl.String}
    )
    part = dict(zip(held_out["id"], held_out["part"], strict=True))
    for i in range(0, 400, 2):
        assert part.get(f"{i:05d}") == part.get(f"{i + 1:05d}")


def test_groups_that_differ_end_both_runs(pair):
    changed = [{**row, "patient": "q" + row["patient"]} for row in pair.rows]
    pair.write_table("label", ["id", "patient", "y", "x0", "x1"])
    pair.write_table("other", ["id", "patient", "x2", "x3"], table=changed)
    pair.write_configurations(group='"patient"')
    done = pair.run()
    assert {status for status, _, _ in done.values()} <= {1, 2}
    assert any("group columns hold different values" in err for _, _, err in done.values())
    # Nothing was put on record: with the column mended the same run begins.
    pair.write_table("other", ["id", "patient", "x2", "x3"])
    assert_ended_well(pair.run())


def test_a_finished_run_is_gone_on_with_for_more_epochs(pair):
    """Also where a batch crosses in three messages: a record is charged once an epoch."""
    pair.write_configurations(micro_batches=3)
    assert_ended_well(pair.run())
    first = load_file(pair.kept("other") / "bottom.safetensors")
    label = ("--epochs", "5", "--audit_every", "1")
    done = pair.run(label=label, other=("--epochs", "5"))
    assert_ended_well(done)
    for _, out, _ in done.values():
        assert "This run has ended before" in out
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert "charged with 5 releases" in json.dumps(findings)
    batches_per_epoch = findings["train_records"] // 32
    assert findings["applied"][0]["releases"] == 2 * 3 * batches_per_epoch
    assert findings["applied"][0]["rows"] == 2 * findings["train_records"]
    # The live audit saw the last two epochs only, and says so.
    before = 3 * 3 * batches_per_epoch
    assert findings["messages_before"] == before
    page = (pair.kept("label") / "report.html").read_text()
    assert f"Messages 1 to {before}: an earlier start sent them" in page
    assert f"the training since message {before + 1}" in " ".join(done["label"][1].split())
    assert (findings["messages_recorded"], findings["messages_sent"]) == (0, before * 5 // 3)
    second = load_file(pair.kept("other") / "bottom.safetensors")
    assert not torch.equal(first["0.weight"], second["0.weight"])


def test_going_on_twice_from_the_same_checkpoint_gives_the_same_weights(pair):
    """Everything that decides the next epoch is kept: weights and the optimizer's memory."""
    assert_ended_well(pair.run(label=("--epochs", "2"), other=("--epochs", "2")))
    for party in ("label", "other"):
        shutil.copytree(pair.kept(party), pair.folder / party / "start")
    weights = []
    for _ in range(2):
        for party in ("label", "other"):
            shutil.rmtree(pair.kept(party))
            shutil.copytree(pair.folder / party / "start", pair.kept(party))
        assert_ended_well(pair.run())
        weights.append(load_file(pair.kept("other") / "bottom.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def wait_until(reached):
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_checkpoint(pair, pattern="step-*"):
    wait_until(lambda: list(pair.kept("label").glob(f"checkpoints/{pattern}")))


@pytest.mark.parametrize("killed", ["label", "other"])
def test_a_killed_party_is_waited_for_and_costs_nothing(pair, killed):
    options = ("--epochs", "60", "--protection", "residual:max_leak_auc=0.7")
    processes = {party: pair.start(party, *options) for party in ("label", "other")}
    wait_for_checkpoint(pair, "step-0000000*5*")
    processes[killed].kill()
    processes[killed].communicate()
    processes[killed] = pair.start(killed, *options)
    done = {}
    for party, process in processes.items():
        out, err = process.communicate(timeout=120)
        done[party] = (process.returncode, out, err)
    assert_ended_well(done)
    waited = done["other" if killed == "label" else "label"][1]
    assert "waiting for the peer" in waited
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    bounds = {row["guarantee"]["leak_auc"] for row in findings["rows"] if row["releases"] == "all"}
    assert max(bounds) <= 0.7 + 1e-9
    assert "charged with 60 releases" in json.dumps(findings)


def test_more_epochs_than_planned_are_refused_before_anything_starts(pair):
    goal = ("--protection", "residual:max_leak_auc=0.7,releases=3", "--epochs", "5")
    done = pair.run(label=goal, other=goal)
    for status, _, err in done.values():
        assert status == 2
        assert "planned for 3 releases" in err


@pytest.mark.parametrize("changed", ["residual:sigma=9", "frozen"])
def test_another_protection_is_refused_in_a_run_that_has_sent_something(pair, changed):
    first = ("--protection", "residual:sigma=1")
    assert_ended_well(pair.run(label=first, other=first))
    second = ("--protection", changed, "--epochs", "4")
    done = pair.run(label=second, other=second)
    status, _, err = done["label"]
    assert status == 2
    assert "under Residual(sigma=1" in err
    assert done["other"][0] == 1


def test_stop_above_ends_a_run_that_then_never_gets_a_bound(pair):
    done = pair.run(label=("--stop-above", "0.6", "--live-every", "1"))
    status, _, err = done["label"]
    assert status == 2, err  # a service that starts it again would undo the stop
    assert "above stop_above = 0.6" in err
    assert done["other"][0] == 1
    journal = (pair.kept("label") / "journal").read_bytes()
    status, out, err = pair.run(label=("--stop-above", "0.6", "--live-every", "1"))["label"]
    assert status == 2
    assert "stopped says that stop_above has ended this run" in err
    assert "run of another name" in err
    assert "Connected" not in out
    assert (pair.kept("label") / "journal").read_bytes() == journal  # nothing more was sent
    status, _, err = pair.run()["label"]
    assert status == 2
    assert "that may stop on labels, and was now started with NoNoise()" in err


def test_a_second_start_of_a_party_leaves_the_first_one_alone(pair):
    first = pair.start("other")
    wait_until((pair.kept("other") / "run.key").exists)  # the lock came before
    second = pair.start("other")
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "non-label party: folder: another process is working on" in err
    label = pair.start("label")
    for process in (label, first):
        assert process.communicate(timeout=120)
        assert process.returncode == 0


@pytest.mark.parametrize("command", ["non-label-party", "predict", "align"])
def test_a_second_command_of_a_party_leaves_its_training_alone(pair, command):
    label = pair.start("label", "--epochs", "4000")
    other = pair.start("other", "--epochs", "4000")
    wait_for_checkpoint(pair)
    (pair.folder / "other" / "table.csv").write_text("id;x2\n")  # a file that cannot be read
    options = ("--alignment", "private") if command == "align" else ()
    second = pair.start("other", *options, command=command)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "another process is working on" in err
    assert label.poll() is None
    assert other.poll() is None
    label.interrupt()
    for process in (label, other):
        assert process.communicate(timeout=60)
        assert process.returncode == 130


def test_ctrl_c_says_what_was_kept(pair):
    label = pair.start("label", "--epochs", "4000")
    other = pair.start("other", "--epochs", "4000")
    wait_for_checkpoint(pair)
    label.interrupt()
    _, err = label.communicate(timeout=60)
    assert label.returncode == 130
    assert "goes on from the newest" in err
    _, err = other.communicate(timeout=60)
    assert other.returncode == 130
    assert "stopped by its operator" in err


def test_predict_gives_the_predictions_of_the_run_again_and_new_ones(pair):
    assert_ended_well(pair.run())
    first = pl.read_csv(pair.kept("label") / "predictions.csv", schema_overrides={"id": pl.String})
    fresh = rows(60, seed=9)
    table = pair.rows + [{**row, "id": "new" + row["id"]} for row in fresh]
    pair.write_table("label", ["id", "x0", "x1"], table=table, name="new.csv")  # no label column
    pair.write_table("other", ["id", "x2", "x3"], table=table, name="new.csv")
    options = ("--file", "new.csv")
    done = pair.run(command="predict", label=(*options, "--out", "all.csv"), other=options)
    assert_ended_well(done)
    again = pl.read_csv(pair.folder / "label" / "all.csv", schema_overrides={"id": pl.String})
    assert len(again) == 460
    assert set(again["part"]) == {"predicted"}
    both = first.join(again, on="id")
    assert len(both) == len(first)
    assert (both["probability"] - both["probability_right"]).abs().max() < 1e-6
    # One record alone, whose columns are all constant, is read as the training read them.
    for party, columns in (("label", ["id", "x0", "x1"]), ("other", ["id", "x2", "x3"])):
        pair.write_table(party, columns, table=table[:1], name="one.csv")
    options = ("--file", "one.csv")
    assert_ended_well(
        pair.run(command="predict", label=(*options, "--out", "one.csv"), other=options)
    )
    alone = pl.read_csv(pair.folder / "label" / "one.csv", schema_overrides={"id": pl.String})
    expected = again.filter(pl.col("id") == alone["id"][0])["probability"]
    assert alone["probability"].to_list() == pytest.approx(expected.to_list(), abs=1e-6)


@pytest.mark.parametrize("flag", [(), ("--safe-csv",)])
def test_ids_that_a_spreadsheet_would_run(pair, flag):
    """Exact by default; with an apostrophe in front on demand, by training and by predict."""
    odd = [row | {"id": f"{'=+-@'[i % 4]}{row['id']}"} for i, row in enumerate(pair.rows)]
    pair.write_table("label", ["id", "y", "x0", "x1"], table=odd)
    pair.write_table("other", ["id", "x2", "x3"], table=odd)
    assert_ended_well(pair.run(label=flag))
    assert_ended_well(pair.run(command="predict", label=(*flag, "--out", "new.csv")))
    for path in (pair.kept("label") / "predictions.csv", pair.folder / "label" / "new.csv"):
        with path.open(newline="") as file:
            ids = [row["id"] for row in csv.DictReader(file)]
        assert {name[0] for name in ids} == ({"'"} if flag else set("=+-@"))
        assert {name.removeprefix("'") for name in ids} <= {row["id"] for row in odd}


def test_frozen_refuses_to_send_a_copy_of_the_features(pair):
    """Two columns, and a cut of 4: the components would be the features in other words."""
    frozen = ("--protection", "frozen")
    done = pair.run(label=frozen, other=frozen)
    status, _, said = done["other"]
    assert status == 2
    said = " ".join(said.split())
    assert "cut_width is 4, and the 2 columns of the training records have rank 2" in said
    assert "allow_feature_copy = true" in said
    status, _, said = done["label"]
    assert status != 0
    assert "a copy of all its features" in " ".join(said.split())
    done = pair.run(label=frozen, other=(*frozen, "--allow_feature_copy", "true"))
    assert_ended_well(done)
    for party, words in (("label", "may be an invertible copy"), ("other", "all features leave")):
        assert f"WARNING: {'the' if party == 'label' else 'all'}" in done[party][1]
        assert words in " ".join(done[party][1].split())
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert "2 principal components" in findings["rows"][0]["guarantee"]["grounds"]


def test_frozen_sends_no_gradient(pair):
    frozen = ("--protection", "frozen", "--cut_width", "1")
    done = pair.run(label=frozen, other=frozen)
    assert_ended_well(done)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert findings["applied"][0]["rows"] == 0
    assert findings["rows"][0]["guarantee"]["leak_auc"] == 0.5
    assert_ended_well(
        pair.run(label=(*frozen, "--out", "new.csv"), other=frozen, command="predict")
    )
    kept, new = (
        pl.read_csv(path, schema_overrides={"id": pl.String}).sort("id")
        for path in (pair.kept("label") / "predictions.csv", pair.folder / "label" / "new.csv")
    )
    again = new.filter(pl.col("id").is_in(kept["id"].to_list()))["probability"].to_list()
    assert again == pytest.approx(kept["probability"].to_list(), abs=1e-6)


def test_a_long_run_is_attacked_in_part_and_says_so(pair):
    done = pair.run(label=("--epochs", "12"), other=("--epochs", "12"))
    assert_ended_well(done)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    sent = findings["messages_sent"]
    every = findings["messages_every"]
    assert 1 < every == sent // 20 == findings["settings"]["audit_every"]
    looked_at = {row["batches"] for row in findings["rows"] if row["releases"] == "one"}
    assert looked_at <= {sent // every, sent // every + 1}
    shown = " ".join(done["label"][1].split())
    assert f"one of every {every} (audit_every), {1 / every:.0%} of them" in shown
    # A step was chosen by chance, and not because it was the first.
    steps = {step for curve in findings["curves"] for step in curve["step"]}
    assert steps != set(range(0, sent, every))


def test_one_message_is_attacked_where_fewer_than_that_were_sent(pair):
    done = pair.run(label=("--audit_every", "100000"))
    assert_ended_well(done)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert findings["messages_every"] == findings["messages_sent"]
    assert {r["batches"] for r in findings["rows"] if r["releases"] == "one"} == {1}


def test_all_messages_are_attacked_on_demand(pair):
    done = pair.run(label=("--epochs", "12", "--audit_every", "1"), other=("--epochs", "12"))
    assert_ended_well(done)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert findings["messages_every"] == 1
    assert {r["batches"] for r in findings["rows"] if r["releases"] == "one"} == {
        findings["messages_sent"]
    }


def test_wide_deep_by_two_commands(pair):
    model = ("--model", "wide_deep", "--epochs", "30")
    assert_ended_well(pair.run(label=model, other=model))
    bottom = load_file(pair.kept("other") / "bottom.safetensors")
    top = load_file(pair.kept("label") / "top.safetensors")
    for half in (bottom, top):  # a linear part beside the deep one, at both parties
        assert {name.split(".")[0] for name in half} >= {"deep", "wide"}
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert findings["utility"][0]["test_auc"][0] > 0.7


def test_own_modules_by_dotted_name(pair):
    (pair.folder / "label" / "mine.py").write_text(
        "import torch\n\n\nclass Top(torch.nn.Module):\n"
        "    def __init__(self, cut_width, own_columns):\n        super().__init__()\n"
        "        self.layer = torch.nn.Linear(cut_width + own_columns, 1)\n\n"
        "    def forward(self, activation, own):\n"
        "        return self.layer(torch.cat([activation, own], 1)).squeeze(1)\n"
    )
    (pair.folder / "other" / "mine.py").write_text(
        "import torch\n\n\ndef bottom(columns, cut_width):\n"
        "    return torch.nn.Linear(columns, cut_width)\n"
    )
    done = pair.run(label=("--model", "mine:Top"), other=("--model", "mine:bottom"))
    assert_ended_well(done)
    kept = load_file(pair.kept("label") / "top.safetensors")
    assert set(kept) == {"layer.weight", "layer.bias"}


BAD_FILES = {
    "missing file": (lambda p: (p.folder / "label/table.csv").unlink(), ["table.csv"]),
    "empty file": (lambda p: (p.folder / "label/table.csv").write_text(""), ["table.csv"]),
    "no such column": (lambda p: p.write_table("label", ["id", "x0", "x1"]), ["'y'"]),
    "one label": (
        lambda p: p.write_table("label", ["id", "y", "x0"], table=[{**r, "y": 1} for r in p.rows]),
        ["'y'"],
    ),
    "three labels": (
        lambda p: p.write_table(
            "label", ["id", "y", "x0"], table=[{**r, "y": i % 3} for i, r in enumerate(p.rows)]
        ),
        ["'y'", "positive"],
    ),
    "infinity": (
        lambda p: p.write_table(
            "label", ["id", "y", "x0"], table=[{**p.rows[0], "x0": "inf"}, *p.rows[1:]]
        ),
        ["'x0'"],
    ),
    "a NaN that nobody declared": (
        lambda p: p.write_table(
            "label", ["id", "y", "x0"], table=[{**p.rows[0], "x0": "NaN"}, *p.rows[1:]]
        ),
        ["'x0'", "missing"],
    ),
    "text in a numeric column": (
        lambda p: (
            p.own["label"].update(numeric='["x0"]'),
            p.write_configurations(),
            p.write_table(
                "label", ["id", "y", "x0"], table=[{**p.rows[0], "x0": "lots"}, *p.rows[1:]]
            ),
        ),
        ["'x0'", "'lots'", "line 2"],
    ),
    "wrong delimiter": (
        lambda p: (p.own["label"].update(delimiter='";"'), p.write_configurations()),
        ["delimiter"],
    ),
    "bad encoding": (
        lambda p: (p.folder / "label/table.csv").write_bytes(b"id,y,x0\n1,0,\xff\xfe\n"),
        ["utf-8"],
    ),
    "truncated gzip": (
        lambda p: (p.folder / "label/table.csv").write_bytes(
            gzip.compress((p.folder / "label/table.csv").read_bytes())[:-200]
        ),
        ["gzip"],
    ),
    "a Parquet that is none": (
        lambda p: (p.folder / "label/table.csv").write_bytes(b"PAR1 nonsense PAR1"),
        ["Parquet"],
    ),
    "repeated ids": (
        lambda p: p.write_table("label", ["id", "y", "x0"], table=[*p.rows, p.rows[7]]),
        ["00007"],
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_gives_one_message_and_the_peer_a_clean_end(pair, name):
    spoil, told = BAD_FILES[name]
    spoil(pair)
    done = pair.run()
    status, _, err = done["label"]
    assert status == 2, err
    assert len(err.strip().splitlines()) == 1
    for word in ["label party", "table.csv", *told]:
        assert word in err, err
    assert not (pair.folder / "label" / "runs").exists()
    status, out, err = done["other"]
    assert status == 1, (out, err)
    assert "Traceback" not in err
    assert "label party ended the session" in err
    assert not list(pair.kept("other").glob("checkpoints/*"))


def test_a_bad_file_at_the_non_label_party_ends_the_label_party(pair):
    (pair.folder / "other" / "table.csv").write_text("id;x2\n")
    label = pair.start("label")
    label.wait_until_said("Listening on")  # a party that fails waits for nobody
    other = pair.start("other")
    _, told = other.communicate(timeout=120)
    assert other.returncode == 2
    assert "non-label party" in told
    _, told = label.communicate(timeout=120)
    assert label.returncode == 1
    assert "non-label party ended the session" in told


def test_ids_that_never_match(pair):
    strangers = [{**row, "id": "z" + row["id"]} for row in pair.rows]
    pair.write_table("other", ["id", "x2", "x3"], table=strangers)
    done = pair.run()
    for status, out, err in done.values():
        assert status in (1, 2), out
        assert "Traceback" not in err
    assert any("None of this party's 400 ids" in err for _, _, err in done.values())


def test_different_seeds_are_named(pair):
    done = pair.run(label=("--seed", "1"))
    assert {status for status, _, _ in done.values()} <= {1, 2}
    assert any("seed is" in err and "0" in err and "1" in err for _, _, err in done.values())


@pytest.mark.parametrize("transport", ["grpc", "tls"])
def test_init_pair_then_two_commands_over_tls(pair, transport):
    names = {"label": "label-party", "other": "non-label-party"}
    for party, name in names.items():
        (pair.folder / party / "run.toml").unlink()
        command = ["init", name, "--out", "run.toml", "--file", "table.csv"]
        done = Command(command, pair.folder / party)
        _, complaint = done.communicate(timeout=60)
        assert done.returncode == 0, complaint
    for party, peer in (("label", "other"), ("other", "label")):
        sent = pair.folder / peer / "identity" / f"{names[peer]}.crt"
        done = Command(["pair", str(sent)], pair.folder / party)
        _, complaint = done.communicate(timeout=60)
        assert done.returncode == 0, complaint
    small = ("--address", f"127.0.0.1:{pair.port}", "--batch-size", "64", "--run", "pair")
    small = (*small, "--transport", transport)
    done = pair.run(label=(*small, "--label", "y"), other=small)
    assert_ended_well(done)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    bounds = [row["guarantee"]["leak_auc"] for row in findings["rows"] if row["releases"] == "all"]
    assert bounds
    assert bounds == pytest.approx([0.7] * len(bounds))
    for _, out, _ in done.values():
        assert (
            f"Connected by {'gRPC over TLS' if transport == 'grpc' else 'TLSv1.3 TLS_AES'}" in out
        )


def test_a_run_of_two_commands_is_recorded_and_attacked_afterwards(pair):
    options = ("--protection", "residual:sigma=2")
    assert_ended_well(pair.run(label=(*options, "--record", "1 MiB"), other=options))
    audit = Command(["audit", "runs/pair/label-party", "--attacks", "norm"], pair.folder / "label")
    out, err = audit.communicate(timeout=120)
    assert audit.returncode == 0, (out, err)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert {row["attack"] for row in findings["rows"]} == {"norm"}


def test_c1_without_an_identity_nothing_listens(pair):
    """C1: the command ends with 2 before anything listens; loopback is not for other addresses."""
    done = pair.start("label", "--insecure-loopback", "false", "--address", f"0.0.0.0:{pair.port}")
    _, err = done.communicate(timeout=60)
    assert done.returncode == 2
    assert "cutlayer init label-party" in err
    done = pair.start("label", "--address", f"0.0.0.0:{pair.port}")
    _, err = done.communicate(timeout=60)
    assert done.returncode == 2
    assert "loopback" in err


def test_findings_that_a_kill_kept_from_being_written_are_written_at_the_next_start(pair):
    """A run of six epochs must not go by the bound of its first three."""
    protection = ("--protection", "residual:sigma=20")
    assert_ended_well(pair.run(label=protection, other=protection))
    path = pair.kept("label") / "findings.json"
    after_three = path.read_text()
    more = (*protection, "--epochs", "6")
    assert_ended_well(pair.run(label=more, other=more))
    after_six = json.loads(path.read_text())
    path.write_text(after_three)  # what a kill just before the writing leaves
    done = pair.run(label=more, other=more)
    assert_ended_well(done)
    now = json.loads(path.read_text())
    assert now["messages_sent"] == after_six["messages_sent"]
    assert now["messages_sent"] == 2 * json.loads(after_three)["messages_sent"]
    assert "charged with 6 releases" in now["applied"][0]["statement"]
    assert "stay" not in done["label"][1]
    path_of_page = pair.kept("label") / "report.html"
    kept = path.read_bytes(), path_of_page.read_bytes()
    again = pair.run(label=more, other=more)
    assert "The findings and page of the run stay." in again["label"][1]
    assert (path.read_bytes(), path_of_page.read_bytes()) == kept


def test_halves_of_different_trainings_do_not_predict_together(pair):
    assert_ended_well(pair.run())
    old = (pair.kept("other") / "bottom.safetensors").read_bytes()
    more = ("--epochs", "6")
    assert_ended_well(pair.run(label=more, other=more))
    (pair.kept("other") / "bottom.safetensors").write_bytes(old)  # killed before it kept its half
    done = pair.run(label=more, other=more, command="predict")
    steps = json.loads((pair.kept("label") / "findings.json").read_text())["messages_sent"]
    for status, _, err in done.values():
        assert status == 2, err
        assert f"after step {steps}" in err
        assert f"after step {steps // 2}" in err
        assert "Start the training command again at both" in err
    assert not (pair.kept("label") / "predicted.csv").exists()
    assert_ended_well(pair.run(label=more, other=more))
    assert_ended_well(pair.run(label=more, other=more, command="predict"))


@pytest.mark.parametrize("record", ["0", "1 MiB"])
def test_changed_labels_are_refused_before_anything_is_answered(pair, record):
    assert_ended_well(pair.run(label=("--record", record)))
    journal = (pair.kept("label") / "journal").read_bytes()
    changed = [{**row, "y": 1 - row["y"]} if i % 7 == 0 else row for i, row in enumerate(pair.rows)]
    pair.write_table("label", ["id", "y", "x0", "x1"], table=changed)
    more = ("--epochs", "4")
    done = pair.run(label=(*more, "--record", record), other=more)
    status, _, err = done["label"]
    assert status == 2, err
    assert "label party: this run has sent" in err
    assert "labels of 58 of its records" in err
    assert "begin a run of another name" in err
    assert done["other"][0] == 1
    assert (pair.kept("label") / "journal").read_bytes() == journal
    pair.write_table("label", ["id", "y", "x0", "x1"])
    assert_ended_well(pair.run(label=(*more, "--record", record), other=more))


def test_a_file_with_exchanged_column_names_is_refused_at_a_later_start(pair):
    assert_ended_well(pair.run())
    weights = (pair.kept("other") / "bottom.safetensors").read_bytes()
    exchanged = [{**row, "x2": row["x3"], "x3": row["x2"]} for row in pair.rows]
    pair.write_table("other", ["id", "x2", "x3"], table=exchanged, name="new.csv")
    more = ("--epochs", "4")
    done = pair.run(label=more, other=(*more, "--file", "new.csv"))
    status, _, err = done["other"]
    assert status == 2, err
    assert err.startswith("non-label party, file new.csv: the data are not those")
    assert "2 of 2 columns held other values: 'x2', 'x3'" in " ".join(err.split())
    assert done["label"][0] != 0
    assert (pair.kept("other") / "bottom.safetensors").read_bytes() == weights
    # The same values in another order of columns and rows, as Parquet: the same run.
    same = pl.read_csv(pair.folder / "other/table.csv", schema_overrides={"id": pl.String})
    same.select("x3", "id", "x2").sort("x3").write_parquet(pair.folder / "other/new.parquet")
    assert_ended_well(pair.run(label=more, other=(*more, "--file", "new.parquet")))


def test_a_changed_term_is_named_with_both_values(pair):
    assert_ended_well(pair.run())
    changed = ("--checkpoint-every", "7", "--epochs", "4")
    status, _, err = pair.run(label=changed, other=changed)["label"]
    assert status == 2, err
    assert "messages with checkpoint_every = 100, and was now started with 7" in err


def test_predictions_are_kept_before_the_peer_is_told_so(pair):
    assert_ended_well(pair.run())
    (pair.folder / "label" / "there").mkdir()  # no file can take the name of a folder
    done = pair.run(command="predict", label=("--out", "there"))
    assert done["label"][0] == 2
    assert "Cannot write there" in done["label"][2]
    status, out, err = done["other"]
    assert status == 1, (out, err)
    assert "label party ended the session" in err
    assert "were predicted" not in out


def test_fewer_epochs_stand_beside_the_bound_of_as_many_releases(pair):
    options = ("--protection", "residual:sigma=20", "--epochs", "6")
    assert_ended_well(pair.run(label=(*options, "--audit_every", "1"), other=options))
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    some = [row for row in findings["rows"] if row["releases"] == "some"]
    assert {row["epochs"] for row in some} == {1, 5}
    for row in some:
        # k releases under noise of sigma are one under sigma / sqrt(k).
        alike = Residual(sigma=20 / row["epochs"] ** 0.5).guarantee(1)
        assert row["guarantee"]["leak_auc"] == pytest.approx(alike.leak_auc, abs=1e-9)


@pytest.mark.parametrize("mode", [None, 0o755, 0o777])
def test_run_folders_are_for_their_owner_alone(pair, mode):
    """Also those that were there before, as an earlier process or a careless hand made them."""
    if mode is not None:
        for party in ("label", "other"):
            pair.kept(party).mkdir(parents=True)
            pair.kept(party).chmod(mode)
    assert_ended_well(pair.run(label=("--record", "1 MiB")))
    folders = [pair.kept("label"), pair.kept("other"), pair.kept("label") / "messages"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
