"""A resumed run is the same run: encoder and records are those that it began with."""

import json
import shutil
from dataclasses import replace

import polars as pl
import pytest
import torch

from cutlayer.data import PartyTable
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.errors import ConnectionLostError, DataError, PeerEndedError
from cutlayer.parties import NonLabelParty, Persistence
from cutlayer.protections import NoNoise
from tests.parties.conftest import QUICK, adam, make_bottom, terms
from tests.parties.test_resuming import Folders, meet
from tests.parties.test_two_parties import weights

COUNT = 240


def mixed_tables():
    """Both parties hold numbers, a category and a number that is missing now and then."""
    g = torch.Generator().manual_seed(4)
    numbers = torch.randn(COUNT, 6, generator=g, dtype=torch.float64)
    jobs = [("farmer", "smith", "nurse")[k] for k in torch.randint(3, (COUNT,), generator=g)]
    ids = tuple(f"r{i:04d}" for i in range(COUNT))
    labels = (numbers[:, 0] + numbers[:, 3] > 0).long()

    def features(first):
        columns = {
            "age": numbers[:, first].tolist(),
            "pay": (100 * numbers[:, first + 1]).tolist(),
            "job": jobs,
            "gap": [None if i % 9 == 0 else float(v) for i, v in enumerate(numbers[:, first + 2])],
            "same": [1.0] * COUNT,
        }
        return pl.DataFrame(columns)

    return (
        PartyTable("label party", ids, features(0), labels),
        PartyTable("non-label party", ids, features(3)),
    )


@pytest.fixture
def folders(tmp_path):
    run = Folders(tmp_path, mixed_tables(), checkpoint_every=100)
    yield run
    for kept in run.kept:
        kept.close()


PARTIES = {"label": 0, "other": 1}


def change(run, party, make):
    """Another table for one party at the next start."""
    tables = list(run.tables)
    table = tables[PARTIES[party]]
    tables[PARTIES[party]] = replace(table, features=make(table.features))
    run.tables = tuple(tables)


def resumed(run, epochs=2):
    run.terms = replace(run.terms, epochs=epochs)
    return meet(*run.parties(NoNoise()))


def some_cells(frame, share, old, new):
    """So many of the cells that hold ``old`` hold ``new``."""
    rows = [i for i, job in enumerate(frame["job"]) if job == old]
    jobs = frame["job"].to_list()
    for row in rows[: max(1, round(share * len(rows)))]:
        jobs[row] = new
    return frame.with_columns(pl.Series("job", jobs))


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda f: f.rename({"age": "pay", "pay": "age"}), "2 of 4 columns .*: 'age', 'pay'"),
        (lambda f: f.with_columns(pl.col("pay") * 1000), "1 of 4 columns .*: 'pay'"),
        (lambda f: f.with_columns(pl.col("gap").fill_null(0)), "1 of 4 columns .*: 'gap'"),
        (lambda f: f.with_columns(pl.col("job").str.to_uppercase()), "1 of 4 columns .*: 'job'"),
        (lambda f: some_cells(f, 0.04, "nurse", "smith"), "1 of 4 columns .*: 'job'"),
        (lambda f: f.with_columns(-pl.all().exclude("job")), "3 of 4 columns .*: 'age', 'pay', 'g"),
        (lambda f: f.drop("age"), "1 of 4 columns cannot be found: 'age'"),
        (lambda f: f.rename({"age": "Age"}), "cannot be found: 'age'; 'Age' is new"),
        (
            lambda f: f.drop("age").with_columns(more=pl.col("pay")),
            "cannot be found: 'age'; 'more' is new",
        ),
        (
            lambda f: f.with_columns(pl.col("age").cast(pl.String)),
            "held numbers and hold categories now: 'age'",
        ),
    ],
    ids=[
        *("swapped", "units", "filled", "respelt", "few cells", "all", "dropped", "renamed"),
        *("another drop", "text"),
    ],
)
def test_changed_features_are_refused_and_named(folders, party, make, named):
    resumed(folders, epochs=1)
    change(folders, party, make)
    both = dict(zip(PARTIES, resumed(folders), strict=True))
    with pytest.raises(DataError, match=named):
        raise both.pop(party)
    # The other party does not wait: it is told at once, and is not to blame.
    (peer,) = both.values()
    assert isinstance(peer, PeerEndedError)


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize(
    "make",
    [
        lambda f: f.select(reversed(f.columns)),
        lambda f: f.with_columns(pl.col("job").cast(pl.Categorical)),
        lambda f: f.with_columns(new=pl.int_range(COUNT)),
        lambda f: f.with_columns(pl.col("same") * 2),  # the same in all records
    ],
    ids=["reordered", "stored otherwise", "one more", "an unused one"],
)
def test_the_same_data_in_another_form_train_the_same_model(folders, tmp_path, party, make):
    resumed(folders, epochs=1)
    for name in PARTIES:  # the same keys, so that both runs draw the same order
        (tmp_path / "whole" / name).mkdir(parents=True)
        shutil.copy(tmp_path / name / "run.key", tmp_path / "whole" / name)
    whole = Folders(tmp_path / "whole", folders.tables, checkpoint_every=100)
    top, bottom = resumed(whole)
    change(folders, party, make)
    again_top, again_bottom = resumed(folders)
    assert torch.equal(weights(again_bottom.bottom), weights(bottom.bottom))
    assert torch.equal(weights(again_top.halves["top"]), weights(top.halves["top"]))
    assert torch.equal(again_top.held_out_logit, top.held_out_logit)
    for kept in whole.kept:
        kept.close()


def test_rows_may_stand_in_another_order_and_others_may_be_added(folders):
    resumed(folders, epochs=1)
    label, other = folders.tables
    more = PartyTable(other.party, ("new",), other.features[:1].with_columns(age=1e6))
    order = [*reversed(other.ids)]
    turned = other.ordered_by(order)
    both = pl.concat([turned.features, more.features])
    folders.tables = label, PartyTable(other.party, (*order, "new"), both)
    top, bottom = resumed(folders)
    assert top.step == bottom.step
    assert len(bottom.agreement.ids) == COUNT


def test_new_columns_and_settings_are_told(tmp_path):
    table = mixed_tables()[1]
    said = []
    notices = []
    for settings, features in (
        ({"learning_rate": 0.01}, table.features),
        ({"learning_rate": 0.5}, table.features.with_columns(new=pl.int_range(COUNT))),
    ):
        run = Folders(tmp_path, (mixed_tables()[0], replace(table, features=features)))
        run.terms = terms(order="nonces", epochs=2 + len(said))
        label, _ = run.parties(NoNoise())
        kept = Persistence.in_folder(tmp_path / "other", settings=settings)
        other = NonLabelParty(
            run.tables[1],
            run.terms,
            make_bottom,
            adam,
            persistence=kept,
            deadlines=QUICK,
            tell=notices.append,
        )
        said.append(meet(label, other))
        for one in run.kept:
            one.close()
    assert not any(isinstance(half, Exception) for halves in said for half in halves)
    assert any("'new' was not among the columns" in notice for notice in notices)
    assert any("learning_rate was 0.01" in notice and "0.5 now" in notice for notice in notices)


def test_data_may_change_while_nothing_has_been_answered(folders):
    """A first start that failed over a bad cell may be tried again with a mended file."""
    for failed in meet(*folders.parties(NoNoise()), other_cut_after=3):
        assert isinstance(failed, ConnectionLostError)
    for party in PARTIES:
        change(folders, party, lambda f: f.with_columns(pl.col("pay") * 2))
    top, bottom = resumed(folders)
    assert top.step == bottom.step > 0


def test_tensors_are_held_too(folders):
    label, _ = folders.tables
    values = torch.randn(COUNT, 5, generator=torch.Generator().manual_seed(1))
    folders.tables = label, TensorRecords("non-label party", label.ids, values)
    resumed(folders, epochs=1)
    turned = TensorRecords("non-label party", label.ids[::-1], values.flip(0))
    folders.tables = label, turned
    assert resumed(folders, epochs=3)[1].step > 0
    folders.tables = label, TensorRecords("non-label party", label.ids, values.flip(1))
    with pytest.raises(DataError, match=r"non-label party: .*tensor of features held other values"):
        raise resumed(folders, epochs=4)[1]
    folders.tables = label, mixed_tables()[1]
    with pytest.raises(DataError, match="records were of another kind"):
        raise resumed(folders, epochs=4)[1]


def test_another_model_is_refused_in_one_line(folders):
    resumed(folders, epochs=1)

    def wider(own):
        return make_bottom(own, width=5)

    folders.terms = replace(folders.terms, epochs=2)
    other = meet(*folders.parties(NoNoise(), bottom=wider))[1]
    with pytest.raises(DataError, match=r"non-label party: .*does not fit this model: .*hidden"):
        raise other
    assert "\n" not in str(other)


@pytest.mark.parametrize("party", PARTIES)
def test_one_round_is_held_too(folders, party):
    folders.terms = replace(folders.terms, mode="one round")
    first = resumed(folders)[0]
    change(folders, party, lambda f: f.select(reversed(f.columns)))
    assert torch.equal(resumed(folders)[0].held_out_logit, first.held_out_logit)
    change(folders, party, lambda f: f.with_columns(pl.col("age") + 1))
    with pytest.raises(DataError, match=r"1 of 4 columns .*: 'age'"):
        raise resumed(folders)[PARTIES[party]]


def test_what_is_kept_is_for_its_owner_and_keyed(folders, tmp_path):
    """The hash of a guessed column tells nothing without the key of the run."""
    resumed(folders, epochs=1)
    kept = {}
    for party in PARTIES:
        path = tmp_path / party / "first_start.json"
        assert path.stat().st_mode & 0o777 == 0o600
        kept[party] = json.loads(path.read_text())["hashes"]
    assert kept["label"]["job"] != kept["other"]["job"]  # the same cells, two keys


def test_a_damaged_record_is_refused_and_a_missing_one_told(folders, tmp_path):
    resumed(folders, epochs=1)
    path = tmp_path / "other" / "first_start.json"
    text = path.read_text()
    for damaged in (text[:-20], "[]", "{}", text.replace("first_start/1", "first_start/9")):
        path.write_text(damaged)
        with pytest.raises(DataError, match=r"first_start\.json is damaged"):
            raise resumed(folders)[1]
    path.unlink()  # as in the folder of an earlier version
    assert resumed(folders)[1].step > 0
    change(folders, "other", lambda f: f.with_columns(pl.col("age") + 1))
    with pytest.raises(DataError, match="'age'"):
        raise resumed(folders, epochs=4)[1]
