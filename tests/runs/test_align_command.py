"""`cutlayer align` at both parties, then a training: as processes, on generated files."""

import stat
import time

import pytest

from cutlayer.alignment.aligned_ids import read_aligned_ids
from cutlayer.alignment.shared_ids import alignment_hash
from tests.runs.command import Command
from tests.runs.test_two_commands import Pair, assert_ended_well, pair

pytest.importorskip("rbcl", reason="needs cutlayer[psi]")

__all__ = ["pair"]  # a fixture


@pytest.fixture
def private(pair):
    pair.write_table("label", ["id", "y", "x0", "x1"], table=pair.rows[:350])
    pair.write_table("other", ["id", "x2", "x3"], table=pair.rows[50:], reverse=True)
    pair.write_configurations(alignment='"private"')
    return pair


def shared_ids(pair: Pair, party: str) -> list[str]:
    return list(read_aligned_ids(pair.kept(party) / "aligned_ids.parquet"))


def test_align_then_train_then_predict(private):
    done = private.run(command="align")
    assert_ended_well(done)
    expected = [f"{i:05d}" for i in range(50, 350)]
    for party, here, _there in (("label", 50, 50), ("other", 50, 50)):
        assert shared_ids(private, party) == expected
        out = " ".join(done[party][1].split())
        assert "300 records are shared" in out
        assert alignment_hash(expected) in out
        assert f"{here} of 350 records of this party" in out
        kept = private.kept(party) / "aligned_ids.parquet"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert_ended_well(private.run())
    private.write_table("label", ["id", "x0", "x1"], table=private.rows[:30], name="new.csv")
    private.write_table("other", ["id", "x2", "x3"], table=private.rows[20:60], name="new.csv")
    new = ("--file", "new.csv", "--aligned-ids", "new.parquet")
    assert_ended_well(private.run(command="align", label=new, other=new))
    done = private.run(command="predict", label=new, other=new)
    assert_ended_well(done)
    assert "10 records were predicted" in " ".join(done["label"][1].split())
    assert shared_ids(private, "label") == expected  # those of the training stay


def test_a_training_without_the_alignment_says_what_to_run(private):
    done = private.run()
    assert done["label"][0] == 2
    assert "label party: There are no shared ids at" in done["label"][2]
    assert "cutlayer align CONFIG" in done["label"][2]
    assert done["other"][0] in (1, 2)


def test_align_refuses_a_form_that_needs_none(pair):
    done = pair.run(command="align")
    for party, name in (("label", "label party"), ("other", "non-label party")):
        assert done[party][0] == 2
        assert f"{name}: alignment is 'digests'" in done[party][2]


def test_a_bad_file_ends_the_peer(private):
    (private.folder / "other" / "table.csv").write_text("id,x2\na,1\na,2\n")
    done = private.run(command="align")
    assert done["other"][0] == 2
    assert "ids must be unique" in done["other"][2]
    assert done["label"][0] == 1
    assert "non-label party ended the session" in done["label"][2]
    assert not private.kept("label").exists()


def test_align_needs_no_labels_and_reads_no_feature(private):
    # The label column is nonsense, a feature is nonsense, and neither is looked at.
    rows = [{**row, "y": "?", "x0": "inf"} for row in private.rows]
    private.write_table("label", ["id", "y", "x0"], table=rows)
    assert_ended_well(private.run(command="align"))


def test_different_files_of_different_size_caps(private):
    done = private.run(command="align", label=("--max-ids", "100"))
    assert "its 350 ids are more than max_ids = 100" in done["label"][2]
    assert done["other"][0] == 1
    done = private.run(command="align", other=("--max-ids", "349"))
    assert done["label"][0] == 1
    assert "its 350 ids are more than max_ids = 349" in done["other"][2]


def test_killed_and_started_again(private):
    label = private.start("label", command="align")
    time.sleep(0.3)
    label.kill()
    with pytest.raises(AssertionError, match="did not end"):
        Command.communicate(stuck := private.start("other", command="align"), timeout=1.0)
    again = private.start("label", command="align")
    for process in (again, stuck):
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
    first = shared_ids(private, "label")
    assert_ended_well(private.run(command="align"))
    assert shared_ids(private, "label") == shared_ids(private, "other") == first


@pytest.mark.slow  # 20,000 ids at each party, so that the kill comes in the middle
@pytest.mark.parametrize("victim", ["label", "other"])
def test_a_kill_in_the_middle_ends_the_peer_and_leaves_nothing(private, victim):
    rows = [{**private.rows[0], "id": f"{i:06d}"} for i in range(20_000)]
    private.write_table("label", ["id", "y", "x0"], table=rows)
    private.write_table("other", ["id", "x2"], table=rows)
    processes = {party: private.start(party, command="align") for party in ("label", "other")}
    time.sleep(1.5)
    processes[victim].kill()
    processes[victim].communicate(timeout=60)
    survivor = next(party for party in processes if party != victim)
    _, complaint = processes[survivor].communicate(timeout=120)
    assert processes[survivor].returncode == 1, complaint
    assert "Traceback" not in complaint
    assert not list(private.folder.rglob("aligned_ids*"))
    assert_ended_well(private.run(command="align"))
    assert len(shared_ids(private, "label")) == 20_000


@pytest.mark.parametrize("failing", ["label", "other"])
def test_ids_are_kept_before_the_peer_is_told_so(private, failing):
    (private.folder / failing / "there").mkdir()  # no file can take the name of a folder
    done = private.run(command="align", **{failing: ("--aligned-ids", "there")})
    assert done[failing][0] == 2  # a path that must be mended
    assert "Cannot write there" in done[failing][2]
    status, out, err = done["other" if failing == "label" else "label"]
    assert status == 1, (out, err)
    assert "party ended the session" in err
