import itertools

import pytest
import torch

from cutlayer.data.schedule import BatchSchedule
from cutlayer.errors import ConfigurationError

SIZES = [(2, 2), (3, 2), (10, 2), (10, 3), (10, 10), (19, 10), (97, 16), (1000, 7)]


@pytest.mark.parametrize(("records", "batch_size"), SIZES)
def test_each_record_once_an_epoch_and_no_small_batch(records, batch_size):
    schedule = BatchSchedule(records, batch_size, epochs=3, seed=1)
    steps = list(schedule)
    assert [part.step for part in steps] == list(range(len(schedule)))
    for epoch, group in itertools.groupby(steps, key=lambda part: part.epoch):
        batches = [part.positions for part in group]
        sizes = [len(positions) for positions in batches]
        assert len(batches) == schedule.batches_per_epoch == records // batch_size, epoch
        assert sorted(torch.cat(batches).tolist()) == list(range(records))
        assert min(sizes) >= batch_size
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) == schedule.largest_batch < 2 * batch_size
    assert [part.epoch for part in steps][:: schedule.batches_per_epoch] == [0, 1, 2]
    assert all(part.share == 1.0 and part.completes and part.batch == part.step for part in steps)
    assert schedule.visits_per_record == 3


@pytest.mark.parametrize("micro_batches", [2, 3, 5])
@pytest.mark.parametrize(("records", "batch_size"), [(97, 10), (100, 10), (10, 10), (119, 24)])
def test_a_batch_is_cut_into_parts_that_together_are_that_batch(records, batch_size, micro_batches):
    whole = BatchSchedule(records, batch_size, epochs=2, seed=3)
    schedule = BatchSchedule(records, batch_size, epochs=2, seed=3, micro_batches=micro_batches)
    assert len(schedule) == micro_batches * len(whole)
    assert schedule.steps_per_epoch == micro_batches * whole.batches_per_epoch
    steps = list(schedule)
    assert [part.step for part in steps] == list(range(len(schedule)))
    for batch in whole:
        parts = [part for part in steps if part.batch == batch.batch]
        assert torch.equal(torch.cat([part.positions for part in parts]), batch.positions)
        assert [part.completes for part in parts] == [False] * (micro_batches - 1) + [True]
        assert {part.epoch for part in parts} == {batch.epoch}
        sizes = [len(part.positions) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 2
        for part, size in zip(parts, sizes, strict=True):
            assert part.share * len(batch.positions) == pytest.approx(size, rel=1e-15)


def test_a_part_is_never_too_small_to_hide_in():
    with pytest.raises(ValueError, match=r"at most 4, .* 2 of the 9 records .* batch_size to 10"):
        BatchSchedule(90, 9, epochs=1, seed=0, micro_batches=5)
    parts = BatchSchedule(90, 9, epochs=1, seed=0, micro_batches=4)
    assert min(len(part.positions) for part in parts) == 2


def test_positions_are_int64():
    assert next(iter(BatchSchedule(10, 2, epochs=1, seed=0))).positions.dtype == torch.int64


def alike(here, there):
    """Whether two parts are the same in all they say."""
    fields = [(p.step, p.epoch, p.share, p.batch, p.completes) for p in (here, there)]
    return fields[0] == fields[1] and torch.equal(here.positions, there.positions)


def test_both_parties_derive_the_same_steps():
    here, there = (BatchSchedule(101, 8, epochs=2, seed=5) for _ in range(2))
    assert all(alike(ours, theirs) for ours, theirs in zip(here, there, strict=True))


def test_epochs_and_seeds_differ():
    orders = [
        torch.cat(BatchSchedule(50, 5, epochs=2, seed=seed).epoch_batches(epoch)).tolist()
        for seed in (0, 1)
        for epoch in (0, 1)
    ]
    assert all(a != b for a, b in itertools.combinations(orders, 2))


def test_a_later_epoch_needs_no_earlier_one():
    schedule = BatchSchedule(50, 5, epochs=4, seed=0)
    last = [part.positions for part in schedule if part.epoch == 3]
    for ours, theirs in zip(schedule.epoch_batches(3), last, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("first", [0, 1, 9, 10, 13, 19, 20, 99])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_taken_up_again_at_any_step(first, micro_batches):
    schedule = BatchSchedule(50, 5, epochs=2, seed=0, micro_batches=micro_batches)
    rest = list(schedule.from_step(first))
    assert all(alike(a, b) for a, b in zip(rest, list(schedule)[first:], strict=True))


def test_fewer_records_than_a_batch_is_an_error_with_the_fix():
    with pytest.raises(ConfigurationError, match=r"batch_size is 8, but only 5 .* to at most 5"):
        BatchSchedule(5, 8, epochs=1, seed=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_size", 1), ("records", 0), ("epochs", 0), ("seed", -1), ("micro_batches", 0)],
)
def test_numbers_outside_their_range_are_refused(name, value):
    numbers = {"records": 10, "batch_size": 2, "epochs": 1, "seed": 0} | {name: value}
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        BatchSchedule(**numbers)


def test_an_epoch_or_step_that_does_not_exist_is_refused():
    schedule = BatchSchedule(10, 2, epochs=2, seed=0)
    with pytest.raises(ValueError, match="epoch must be below 2, got 2"):
        schedule.epoch_batches(2)
    with pytest.raises(ValueError, match="first"):
        schedule.from_step(-1)
