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
    assert [step for step, _, _ in steps] == list(range(len(schedule)))
    for epoch, group in itertools.groupby(steps, key=lambda entry: entry[1]):
        batches = [positions for _, _, positions in group]
        sizes = [len(positions) for positions in batches]
        assert len(batches) == schedule.batches_per_epoch == records // batch_size, epoch
        assert sorted(torch.cat(batches).tolist()) == list(range(records))
        assert min(sizes) >= batch_size
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) == schedule.largest_batch < 2 * batch_size
    assert [epoch for _, epoch, _ in steps][:: schedule.batches_per_epoch] == [0, 1, 2]
    assert schedule.visits_per_record == 3


def test_positions_are_int64():
    _, _, positions = next(iter(BatchSchedule(10, 2, epochs=1, seed=0)))
    assert positions.dtype == torch.int64


def test_both_parties_derive_the_same_steps():
    here, there = (BatchSchedule(101, 8, epochs=2, seed=5) for _ in range(2))
    for ours, theirs in zip(here, there, strict=True):
        assert ours[:2] == theirs[:2]
        assert torch.equal(ours[2], theirs[2])


def test_epochs_and_seeds_differ():
    orders = [
        torch.cat(BatchSchedule(50, 5, epochs=2, seed=seed).epoch_batches(epoch)).tolist()
        for seed in (0, 1)
        for epoch in (0, 1)
    ]
    assert all(a != b for a, b in itertools.combinations(orders, 2))


def test_a_later_epoch_needs_no_earlier_one():
    schedule = BatchSchedule(50, 5, epochs=4, seed=0)
    last = [positions for _, epoch, positions in schedule if epoch == 3]
    for ours, theirs in zip(schedule.epoch_batches(3), last, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("first", [0, 1, 9, 10, 13, 19, 20, 99])
def test_taken_up_again_at_any_step(first):
    schedule = BatchSchedule(50, 5, epochs=2, seed=0)
    rest = list(schedule.from_step(first))
    expected = list(schedule)[first:]
    assert [entry[:2] for entry in rest] == [entry[:2] for entry in expected]
    assert all(torch.equal(a[2], b[2]) for a, b in zip(rest, expected, strict=True))


def test_fewer_records_than_a_batch_is_an_error_with_the_fix():
    with pytest.raises(ConfigurationError, match=r"batch_size is 8, but only 5 .* to at most 5"):
        BatchSchedule(5, 8, epochs=1, seed=0)


@pytest.mark.parametrize(
    ("name", "value"), [("batch_size", 1), ("records", 0), ("epochs", 0), ("seed", -1)]
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
