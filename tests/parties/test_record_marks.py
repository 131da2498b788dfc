"""The labelling: what the noise of the residual knows a label party's labels by."""

from dataclasses import replace

import pytest
import torch

from cutlayer.errors import DataError
from cutlayer.parties import Persistence
from cutlayer.parties.agreement import Agreement
from cutlayer.parties.canaries import Canaries
from cutlayer.parties.record_marks import RecordMarks, _labelling
from cutlayer.protections import Marvell, NoNoise, Residual
from cutlayer.rng import SecretNoise
from tests.parties.conftest import tables

TABLE = tables(50)[0]
NONE = Canaries(torch.zeros(40, dtype=torch.int64), torch.zeros(40, dtype=torch.bool))


def labelling(table, canaries):
    return _labelling(table, canaries, None)


def test_the_order_of_the_rows_does_not_matter():
    assert labelling(TABLE, NONE) == labelling(TABLE.ordered_by(TABLE.ids[::-1]), NONE)


def test_what_the_peer_brings_does_not_matter():
    """The canaries' labels are those of the shared records; without coins they do not count."""
    fewer = Canaries(torch.ones(7, dtype=torch.int64), torch.zeros(7, dtype=torch.bool))
    assert labelling(TABLE, NONE) == labelling(TABLE, fewer)


def changed(place, *, labels=None, ids=None):
    table = TABLE
    if labels is not None:
        flipped = TABLE.labels.clone()
        flipped[place] = labels
        table = replace(table, labels=flipped)
    if ids is not None:
        named = list(TABLE.ids)
        named[place] = ids
        table = replace(table, ids=tuple(named))
    return table


def swapped():
    """The labels of a positive and of a negative, exchanged."""
    positive, negative = (int((TABLE.labels == one).nonzero()[0]) for one in (1, 0))
    labels = TABLE.labels.clone()
    labels[[positive, negative]] = labels[[negative, positive]]
    return replace(TABLE, labels=labels)


def test_a_label_an_id_a_record_and_a_coin_do():
    coins = Canaries(NONE.training_labels, NONE.mask.clone())
    coins.mask[3] = True
    other_coin = Canaries(coins.training_labels.clone(), coins.mask)
    other_coin.training_labels[3] = 1
    elsewhere = Canaries(NONE.training_labels, NONE.mask.roll(1) | NONE.mask)
    elsewhere.mask[4] = True
    digests = [
        labelling(TABLE, NONE),
        *(labelling(changed(row, labels=1 - TABLE.labels[row]), NONE) for row in range(50)),
        labelling(changed(0, ids="new"), NONE),
        labelling(swapped(), NONE),
        labelling(TABLE.ordered_by(TABLE.ids[1:]), NONE),
        labelling(TABLE, coins),
        labelling(TABLE, other_coin),
        labelling(TABLE, elsewhere),
    ]
    assert len(set(digests)) == len(digests)
    assert {len(digest) for digest in digests} == {32}


def test_an_id_counts_also_where_all_labels_are_alike():
    negative = replace(TABLE, labels=torch.zeros(50, dtype=torch.int64))
    renamed = replace(negative, ids=("new", *TABLE.ids[1:]))
    assert labelling(negative, NONE) != labelling(renamed, NONE)


@pytest.fixture
def marks_of(tmp_path):
    """The marks that a start makes of a table, after those before it sent something or nothing."""

    def made(table, *, sends=False, name="run", train=range(40)):
        kept = Persistence.in_folder(tmp_path / name, "residual")
        try:
            ids, rows = TABLE.ids, torch.tensor(list(train))
            agreement = Agreement(ids, rows, rows[:0], torch.arange(40, 50), order_seed=1)
            canaries = Canaries(table.ordered_by(ids).labels, torch.zeros(50, dtype=torch.bool))
            marks = RecordMarks.made_by(
                kept.key.noise(), Residual(sigma=1.0), table, agreement, canaries, kept
            )
            kept.journal.bind({"steps_per_epoch": "1", **marks.binding})
            if sends:
                kept.journal.settle(kept.journal.released, bytes(32), bytes(32))
            return marks.by_position
        finally:
            kept.close()

    return made


def grown(table):
    """The table with one more record, which the peer lacks."""
    more = tables(51)[0]
    features, labels = more.features[:51], torch.cat([table.labels, torch.ones(1, dtype=int)])
    return replace(table, ids=(*table.ids, "more"), features=features, labels=labels)


def test_marks_stay_when_a_file_grows_after_something_was_sent(marks_of):
    first = marks_of(TABLE, sends=True)
    assert torch.equal(marks_of(grown(TABLE)), first)
    assert torch.equal(marks_of(TABLE.ordered_by(TABLE.ids[::-1])), first)


@pytest.mark.parametrize("sends", [True, False])
def test_a_changed_label_of_a_training_record_changes_all_marks(marks_of, sends):
    """Also where nothing refused it before: the same noise would show which label changed."""
    first = marks_of(TABLE, sends=sends)
    for table in (changed(7, labels=1 - TABLE.labels[7]), swapped()):
        other = marks_of(table)
        assert not (other == first).all(dim=1).any()
    assert torch.equal(marks_of(TABLE), first)


def test_marks_belong_to_the_id_and_to_the_run(marks_of):
    first = marks_of(TABLE)
    assert torch.equal(marks_of(TABLE, train=range(39, 9, -1)), first[10:].flip(0))
    assert not (marks_of(TABLE, name="other") == first).all(dim=1).any()
    assert len(torch.unique(first, dim=0)) == 40


@pytest.mark.parametrize("protection", [NoNoise(), Marvell(s=4.0)], ids=lambda p: p.name)
def test_protections_whose_noise_belongs_to_steps_need_no_marks(protection):
    agreement = Agreement(TABLE.ids, torch.arange(40), torch.arange(0), torch.arange(40, 50), 1)
    marks = RecordMarks.made_by(SecretNoise(), protection, TABLE, agreement, NONE, None)
    assert marks.by_position.shape == (40, 0)
    assert marks.binding == {}


def test_records_without_labels_are_refused():
    with pytest.raises(ValueError, match="no labels"):
        labelling(replace(TABLE, labels=None), NONE)


@pytest.mark.parametrize("kept_back", [1, 10])
def test_what_a_private_alignment_left_over_does_not_matter(tmp_path, kept_back):
    """Its records are what the peer chose to bring: other ones must not get other noise."""
    made = []
    for start, table in enumerate((TABLE, TABLE.ordered_by(TABLE.ids[:-kept_back]))):
        folder = tmp_path / str(start)
        folder.mkdir()
        (folder / "run.key").touch(mode=0o600)
        (folder / "run.key").write_bytes(bytes(range(32)))  # all but the key was lost
        kept = Persistence.in_folder(folder, "residual")
        kept.hold_labels(TABLE.ids, TABLE.labels)  # all rows of the file
        kept.hold_labels(table.ids, table.labels)  # as LabelParty does with those that are shared
        rows = torch.arange(30)
        agreement = Agreement(table.ids, rows, rows[:0], torch.arange(30, 40), order_seed=1)
        made.append(
            RecordMarks.made_by(
                kept.key.noise(), Residual(sigma=1.0), table, agreement, NONE, kept
            ).by_position
        )
        kept.close()
    assert torch.equal(*made)


def test_labels_that_nobody_holds_any_more_end_a_run_before_a_peer_is_met(tmp_path):
    """Otherwise a changed label of a shared record would end it at the step computed again."""
    kept = Persistence.in_folder(tmp_path, "residual")
    kept.hold_labels(TABLE.ids, TABLE.labels)
    kept.journal.bind({"steps_per_epoch": "1"})
    kept.journal.settle(0, bytes(32), bytes(32))
    (tmp_path / "labels.held").unlink()
    for labels in (TABLE.labels, 1 - TABLE.labels):  # alike, whatever the labels are
        with pytest.raises(DataError, match=r"labels\.held is missing"):
            kept.hold_labels(TABLE.ids, labels)
    kept.close()
