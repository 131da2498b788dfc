import json
import shutil

import pytest
import torch

from cutlayer.durable import only_process
from cutlayer.errors import ConfigurationError
from cutlayer.operation import party_checks
from cutlayer.operation.checkup import Verdict
from cutlayer.operation.doctor import examine
from cutlayer.parties import CheckpointStore, ReleaseJournal, RunKey
from cutlayer.protocol import Role, StreamListener, create_identity, load_identity, pair
from cutlayer.runs.configuration import LabelConfiguration, read_configuration
from tests.protocol.networks import make_identities

BINDING = {"terms": "t", "records": "r", "order": "o", "steps_per_epoch": "4"}
SHARED = """
run = "r"
file = "{folder}/{party}.csv"
id = "id"
protection = "residual:sigma=1"
address = "127.0.0.1:{port}"
identity = "{folder}/{party}-party"
folder = "{folder}/run-{party}"
batch_size = 4
validation_share = 0
test_share = 0.3
"""


@pytest.fixture
def parties(tmp_path, unused_port):
    """Two folders in order: configuration, table, identity."""
    make_identities(tmp_path)
    rows = range(40)
    label = ["id,y,x0", *(f"{i:03d},{i % 2},{(i * i) % 7}" for i in rows)]
    other = ["id,x1", *(f"{i:03d},{(i * i) % 11}" for i in rows)]
    (tmp_path / "label.csv").write_text("\n".join(label))
    (tmp_path / "non-label.csv").write_text("\n".join(other))
    for party in ("label", "non-label"):
        text = SHARED.format(folder=tmp_path, party=party, port=unused_port)
        text += 'label = "y"\n' if party == "label" else ""
        (tmp_path / f"{party}.toml").write_text(text)
    return tmp_path


def checkup(parties, party="label", **overrides):
    return {c.subject: c for c in examine(parties / f"{party}.toml", overrides)}


def verdict_of(parties, subject, party="label", **overrides):
    return checkup(parties, party, **overrides)[subject].verdict


def snapshot(folder):
    return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


def test_two_parties_in_order_and_nothing_is_written(parties):
    before = snapshot(parties)
    for party in ("label", "non-label"):
        checks = checkup(parties, party)
        faults = [c for c in checks.values() if c.verdict is Verdict.FAULT]
        assert not faults
        assert checks["file"].found.startswith("40 records, 1 columns")
        assert set(checks) >= {"versions", "configuration", "key", "own certificate", "address"}
        assert set(checks) >= {"peer's certificate", "model", "checkpoints", "disk", "clock"}
        assert set(checks) >= {"threads", "TCP", "entropy"}
    own = checkup(parties, "label")["own certificate"].found.partition("fingerprint ")[2]
    assert checkup(parties, "non-label")["peer's certificate"].found.endswith(own)
    assert len(own.split()) == 16
    assert snapshot(parties) == before
    assert not (parties / "run-label").exists()


def test_a_configuration_that_cannot_be_read_ends_the_checkup(parties):
    checks = checkup(parties, epochz="3")
    assert list(checks) == ["versions", "configuration"]
    assert checks["configuration"].verdict is Verdict.FAULT
    assert "epochz" in checks["configuration"].found


def test_a_key_that_others_can_read(parties):
    (parties / "label-party" / "label-party.key").chmod(0o644)
    check = checkup(parties)["identity"]
    assert check.verdict is Verdict.FAULT
    assert "chmod 600" in check.found


def test_no_peer_is_pinned(parties):
    (parties / "label-party" / "peer.crt").unlink()
    check = checkup(parties)["identity"]
    assert check.verdict is Verdict.FAULT
    assert "cutlayer pair" in check.found


@pytest.mark.parametrize(("days", "verdict"), [(29, Verdict.WARNING), (32, Verdict.OK)])
def test_certificates_that_end_soon(parties, days, verdict):
    shutil.rmtree(parties / "non-label-party")
    create_identity(parties / "non-label-party", Role.NON_LABEL, days=days)
    pair(parties / "non-label-party", parties / "label-party" / "label-party.crt")
    sent = parties / "non-label-party" / "non-label-party.crt"
    pair(parties / "label-party", sent, replace=True)
    assert verdict_of(parties, "peer's certificate") is verdict
    assert verdict_of(parties, "own certificate", "non-label") is verdict


def test_a_taken_port(parties):
    configuration = read_configuration(LabelConfiguration, parties / "label.toml")
    identity = load_identity(parties / "label-party", Role.LABEL)
    with StreamListener(configuration.meeting_point, identity):
        assert verdict_of(parties, "address") is Verdict.FAULT
        check = checkup(parties, "non-label", transport="tls")["address"]
        assert check.verdict is Verdict.OK
        assert "TLSv1.3" in check.found


def test_nobody_listens_yet_is_no_fault(parties):
    assert verdict_of(parties, "address", "non-label") is Verdict.WARNING


def test_a_label_party_that_does_not_know_this_one(parties, tmp_path):
    foreign = make_identities(tmp_path / "foreign")[Role.LABEL]
    configuration = read_configuration(LabelConfiguration, parties / "label.toml")
    with StreamListener(configuration.meeting_point, foreign):
        check = checkup(parties, "non-label", transport="tls")["address"]
    assert check.verdict is Verdict.FAULT
    assert "cutlayer pair" in check.found


def test_plain_text_is_warned_of(parties):
    check = checkup(parties, insecure_loopback="true")["identity"]
    assert check.verdict is Verdict.WARNING


def test_a_bad_file_and_a_bad_model(parties):
    (parties / "label.csv").write_text("id,y,x0\n001,1,2\n001,0,3\n")
    checks = checkup(parties, model="nowhere:Top")
    assert checks["file"].verdict is checks["model"].verdict is Verdict.FAULT
    assert "disk" not in checks


def test_notices_are_counted_and_not_shown(parties):
    found = checkup(parties)["file"].found
    # Which value is positive, and how often it occurs; and that x0 may hold codes.
    assert "2 notices, which" in found
    assert "20 rows" not in found


def test_columns_that_give_the_label_away_are_named_without_a_number(parties):
    rows = (f"{i:03d},{i % 2},{(i * i) % 7},{5 + i % 2}" for i in range(40))
    (parties / "label.csv").write_text("\n".join(["id,y,x0,outcome", *rows]))
    check = checkup(parties)["label"]
    assert check.verdict is Verdict.WARNING
    assert check.found.startswith("'outcome': ")
    assert not any(sign.isdigit() for sign in check.found)
    assert "List under drop" in check.fix
    assert "label" not in checkup(parties, drop="outcome")


def test_ids_in_the_order_of_the_label_are_named(parties):
    rows = (f"{i:03d},{int(i >= 20)},{(i * i) % 7}" for i in range(40))
    (parties / "label.csv").write_text("\n".join(["id,y,x0", *rows]))
    assert checkup(parties)["label"].found.startswith("'id': ")


def test_of_a_large_file_only_the_ids_are_read(parties, monkeypatch):
    monkeypatch.setattr(party_checks, "LARGE_FILE_BYTES", 100)
    check = checkup(parties)["file"]
    assert check.verdict is Verdict.WARNING
    assert "40 records" in check.found


@pytest.mark.parametrize(
    ("batch_size", "verdict"),
    # Of 40 records 28 are expected to train: 40 x (1 - .3).
    [("28", Verdict.OK), ("29", Verdict.WARNING), ("41", Verdict.FAULT)],
)
def test_batches_that_the_records_cannot_fill(parties, batch_size, verdict):
    assert verdict_of(parties, "batches", batch_size=batch_size) is verdict


@pytest.mark.parametrize(("share", "verdict"), [("0.25", Verdict.OK), ("0.24", Verdict.WARNING)])
def test_a_part_that_is_likely_to_be_refused_for_its_size(parties, share, verdict):
    check = checkup(parties, test_share=share)["batches"]
    assert check.verdict is verdict
    small = "about 9 of 40 records fall into the test part, which needs at least 10"
    assert (small in check.found) == (verdict is Verdict.WARNING)


def kept_run(parties, steps=3, protection=None):
    """A run folder of the label party after some steps."""
    configuration = read_configuration(LabelConfiguration, parties / "label.toml")
    folder = configuration.run_folder
    RunKey.kept_at(folder / "run.key")
    journal = ReleaseJournal(folder / "journal", protection or configuration.protection_settings)
    journal.bind(BINDING)
    for step in range(steps):
        journal.settle(step, bytes([step]) * 32, bytes([step + 9]) * 32)
    half = torch.nn.Linear(2, 1)
    store = CheckpointStore(folder / "checkpoints")
    for step in (0, steps):
        store.save(step, {"top": half}, {"top": torch.optim.Adam(half.parameters())})
    return folder, journal


def test_a_kept_run_that_is_sound(parties):
    folder, journal = kept_run(parties)
    journal.close()
    before = snapshot(folder)
    checks = checkup(parties)
    assert checks["journal"].found == "sound, 3 steps were answered"
    assert checks["checkpoints"].found == "sound after steps 0, 3"
    assert checks["run key"].verdict is Verdict.OK
    assert snapshot(folder) == before


def test_what_a_crash_left_is_sound_and_stays(parties):
    folder, journal = kept_run(parties)
    journal.close()
    with (folder / "journal").open("ab") as file:
        file.write(bytes(40))
    before = snapshot(folder)
    assert verdict_of(parties, "journal") is Verdict.OK
    assert snapshot(folder) == before


def spoil_journal(folder):
    raw = bytearray((folder / "journal").read_bytes())
    raw[-100] ^= 1
    (folder / "journal").write_bytes(raw)


def spoil_newest_checkpoint(folder):
    path = folder / "checkpoints" / "step-0000000003" / "checkpoint.json"
    path.write_text(json.dumps({}))


def cut_journal(folder):
    raw = (folder / "journal").read_bytes()
    (folder / "journal").write_bytes(raw[:-80])


@pytest.mark.parametrize(
    ("spoil", "subject", "verdict"),
    [
        (spoil_journal, "journal", Verdict.FAULT),
        (spoil_newest_checkpoint, "checkpoints", Verdict.WARNING),
        (cut_journal, "checkpoints", Verdict.FAULT),
        (lambda f: (f / "run.key").chmod(0o640), "run key", Verdict.FAULT),
        (lambda f: (f / "run.key").unlink(), "run key", Verdict.FAULT),
        (lambda f: (f / "run.key").write_bytes(b"short"), "run key", Verdict.FAULT),
    ],
)
def test_a_kept_run_that_is_not(parties, spoil, subject, verdict):
    folder, journal = kept_run(parties)
    journal.close()
    spoil(folder)
    assert verdict_of(parties, subject) is verdict


def test_a_run_that_is_going_on_or_left_under_another_protection(parties):
    folder, journal = kept_run(parties)
    with only_process(folder, "the test"):
        checks = checkup(parties)
    assert "another process of this party" in checks["run folder"].found
    assert checks["journal"].verdict is Verdict.OK  # it may be read while it grows
    journal.close()
    assert "run folder" not in checkup(parties)
    check = checkup(parties, protection="residual:sigma=2")["journal"]
    assert check.verdict is Verdict.FAULT
    assert "sigma=2" in check.found


def test_a_journal_that_is_only_looked_at_takes_no_entry(parties):
    folder, journal = kept_run(parties)
    journal.close()
    configuration = read_configuration(LabelConfiguration, parties / "label.toml")
    looked = ReleaseJournal(folder / "journal", configuration.protection_settings, look_only=True)
    looked.bind(BINDING)
    with pytest.raises(ConfigurationError, match="only be looked at"):
        looked.settle(3, bytes(32), bytes(32))
    looked.close()


def test_a_copy_of_the_features_is_a_fault_before_the_run(parties):
    """One column, so that any width is a copy."""
    said = checkup(parties, "non-label", protection="frozen")["features"]
    assert said.verdict is Verdict.FAULT
    assert "cut_width is 32, and the 1 column of the training records have rank 1" in said.found
    allowed = checkup(parties, "non-label", protection="frozen", allow_feature_copy="true")
    assert allowed["features"].verdict is Verdict.WARNING
    assert "features" not in checkup(parties, "label", protection="frozen")
    assert "features" not in checkup(parties, "non-label")
