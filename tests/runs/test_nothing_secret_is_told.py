"""C6, C7: planted words, and where they may be found after sessions that end well and badly."""

import struct

import pytest

from tests.runs.command import Command
from tests.runs.test_two_commands import Pair, assert_ended_well

YES, NO = "canaryyes", "canaryno"
ID = "canaryid"
CONSTANT = 0.12345679
BOTTOM = f'''
import torch

class Bottom(torch.nn.Module):
    """Puts a known number into every activation."""

    def __init__(self, columns, cut_width):
        super().__init__()
        self.layer = torch.nn.Linear(columns, cut_width - 1)

    def forward(self, rows):
        return torch.cat([torch.full((len(rows), 1), {CONSTANT}), self.layer(rows)], dim=1)
'''
RUN = {"label": "runs/pair/label-party", "other": "runs/pair/non-label-party"}


@pytest.fixture
def pair(tmp_path, unused_port):
    folder = tmp_path / "canarypath"
    folder.mkdir()
    made = Pair(folder, unused_port)
    for row in made.rows:
        row["id"] = f"{ID}{row['id']}"
        row["y"] = YES if row["y"] else NO
    made.write_table("label", ["id", "y", "x0", "x1"])
    made.write_table("other", ["id", "x2", "x3"], reverse=True)
    (folder / "other" / "own.py").write_text(BOTTOM)
    made.settings |= {"insecure_loopback": "false", "transport": '"tls"', "epochs": "2"}
    made.settings |= {"log": '"run.log"', "log_level": '"debug"', "protection": '"marvell:s=4"'}
    made.own["label"] |= {"positive": f'"{YES}"', "record": '"1 MiB"'}
    made.own["other"]["model"] = '"own:Bottom"'
    made.write_configurations()
    names = {"label": "label-party", "other": "non-label-party"}
    for party, name in names.items():
        done = Command(["init", name, "--out", "unused.toml"], folder / party)
        done.communicate(timeout=60)
    for party, peer in (("label", "other"), ("other", "label")):
        certificate = folder / peer / "identity" / f"{names[peer]}.crt"
        (folder / party / "peer.crt").write_bytes(certificate.read_bytes())
        Command(["pair", "peer.crt"], folder / party).communicate(timeout=60)
    return made


def holders(pair, *needles):
    """Files of both parties, by party and path, that hold one of these words or bytes."""
    found = set()
    for path in pair.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if any((n.encode() if isinstance(n, str) else n) in data for n in needles):
                found.add(path.relative_to(pair.folder).as_posix())
    return found


def secrets(pair):
    """Run keys of both parties and all that is derived from them, and the identities' keys."""
    found = []
    for party, folder in RUN.items():
        key = (pair.folder / party / folder / "run.key").read_bytes()
        found += [key, key.hex(), key.hex().upper()]
    for key in pair.folder.rglob("*.key"):
        text = key.read_text(errors="replace")
        if "PRIVATE KEY" in text:
            found.append(text.splitlines()[1])
    return found


def require_told_nowhere_else(pair):
    run, recording = f"label/{RUN['label']}", f"label/{RUN['label']}/messages/"
    # Ids: the files, the predictions, and the recording that the operator asked for.
    ids = {name for name in holders(pair, ID) if not name.startswith(recording)}
    assert ids <= {"label/table.csv", "other/table.csv", f"{run}/predictions.csv"}
    # Label values: the file, the setting, and where the label party's operator reads how many rows
    # were taken as positive. Not its log, not what it complains, and nothing of the other party.
    values = {name for name in holders(pair, YES, NO) if not name.startswith("label/.said")}
    reports = {f"{run}/findings.json", f"{run}/report.html"}
    assert {"label/table.csv", "label/run.toml"} <= values
    assert values <= {"label/table.csv", "label/run.toml"} | reports
    assert holders(pair, f"{CONSTANT:.6f}", repr(CONSTANT)) == {"other/own.py"}
    binary = holders(pair, struct.pack("<f", CONSTANT))
    assert all(name.startswith(recording) for name in binary), binary
    keys = {name.rpartition("/")[2] for name in holders(pair, *secrets(pair))}
    assert keys == {"run.key", "label-party.key", "non-label-party.key"}
    assert holders(pair, str(pair.folder)) == set()


def test_c6_c7_planted_words_are_nowhere_that_they_do_not_belong(pair):
    assert_ended_well(pair.run())
    require_told_nowhere_else(pair)
    logs = [(pair.folder / party / "run.log").read_text() for party in RUN]
    assert all('"debug"' in log.lower() or len(log) > 100 for log in logs)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"other": ("--epochs", "3")}, "epochs is"),
        ({"other": ("--batch-size", "16")}, "batch_size is"),
    ],
    ids=["epochs", "batch_size"],
)
def test_c6_c7_nor_after_a_session_that_failed(pair, options, says):
    done = pair.run(**options)
    assert any(status and says in err for status, _, err in done.values()), done
    require_told_nowhere_else(pair)


def test_c6_nor_after_a_broken_run_folder(pair):
    assert_ended_well(pair.run())
    journal = pair.folder / "label" / RUN["label"] / "journal"
    journal.write_bytes(journal.read_bytes()[:-100] + bytes(100))
    done = pair.run(label=("--epochs", "3"), other=("--epochs", "3"))
    assert "is damaged" in done["label"][2]
    require_told_nowhere_else(pair)
