import pytest
import torch

from cutlayer.attacks import ATTACKS, Attack
from cutlayer.audits import LiveLeak
from cutlayer.errors import LeakStopError
from cutlayer.transcript import Release


def first_column(gradient: torch.Tensor) -> torch.Tensor:
    return gradient[:, 0]


def second_column(gradient: torch.Tensor) -> torch.Tensor:
    return gradient[:, 1]


WRITTEN = {"first": Attack(first_column), "second": Attack(second_column)}
LABELS = torch.tensor([1, 1, 0, 0])


def observe(live, step, first, second=(0, 0, 0, 0), labels=LABELS):
    gradient = torch.tensor([first, second], dtype=torch.float32).T
    release = Release(step, 0, torch.arange(len(first)), torch.zeros(len(first), 1), gradient)
    live.on_release(release, labels, gradient)


def observe_and_send(live, step, *batch, **options):
    """As a training does: the listeners are told once the reply has left."""
    observe(live, step, *batch, **options)
    live.on_progress(step + 1, 10, 4)


def live_leak(attacks=WRITTEN, **settings):
    return LiveLeak(attacks, generator=torch.Generator().manual_seed(0), **settings)


def test_median_of_the_worst_attack_by_hand():
    live = live_leak(every=1)
    assert live.leak_auc is None
    observe(live, 0, [1, 0, 0, 0])  # beats two of four pairs, ties in two: 3/4
    assert live.leak_auc == 0.75
    observe(live, 1, [0, 0, 0, 0], second=[0, 0, 1, 1])  # always wrong: 1 when turned
    assert live.leak_auc == 0.875
    observe(live, 2, [0, 0, 0, 0])  # knows nothing
    assert live.leak_auc == 0.75
    assert live.batches == 3


def test_only_every_kth_step_is_attacked():
    live = live_leak(every=5)
    for step in range(11):
        observe(live, step, [1, 1, 0, 0])
    assert live.batches == 3


def test_the_median_follows_the_last_batches():
    live = live_leak(every=1, window=3)
    for step in range(10):
        observe(live, step, [1, 1, 0, 0] if step < 7 else [0, 0, 0, 0])
    assert (live.leak_auc, live.batches) == (0.5, 3)


def test_a_batch_of_one_class_is_passed_by():
    live = live_leak(every=1)
    observe(live, 0, [1, 2, 3, 4], labels=torch.ones(4))
    assert live.leak_auc is None


@pytest.mark.parametrize("labels", [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
def test_s2_the_same_attacks_run_whatever_the_labels(labels):
    called = []

    def hinted(gradient: torch.Tensor, hint: torch.Tensor) -> torch.Tensor:
        called.append((tuple(gradient.shape), tuple(hint.shape), hint.dtype))
        return gradient @ hint

    live = live_leak({"hinted": Attack(hinted)}, every=1)
    observe(live, 0, [1, 2, 3, 4], labels=torch.tensor(labels))
    assert called == [((4, 2), (2,), torch.float32)]
    # Three others of both classes give a reading; else there is none.
    assert live.batches == (sum(labels) == 2)


def test_s2_listeners_are_told_again_where_a_batch_has_no_reading():
    told = []
    live = live_leak(every=1, listeners=(told.append,))
    observe_and_send(live, 0, [1, 2, 3, 4], labels=torch.zeros(4))
    assert told == []
    observe_and_send(live, 1, [1, 1, 0, 0])
    observe_and_send(live, 2, [1, 2, 3, 4], labels=torch.zeros(4))
    assert [reading.step for reading in told] == [1, 1]
    assert live.batches == 1


def test_an_attack_with_a_hint_is_not_credited_with_the_hint():
    cosine = live_leak({"cosine": ATTACKS["cosine"]}, every=1)
    observe(cosine, 0, [1, 0, 0, 0], labels=torch.tensor([1, 0, 0, 0]))  # the hint is all there is
    assert cosine.leak_auc is None
    observe(cosine, 1, [1, 2, -1, -1])
    assert cosine.leak_auc == 1.0
    observe(cosine, 2, [0, 0, 1, 1])  # no positive has a direction
    assert cosine.batches == 1


@pytest.mark.parametrize("settings", [{"every": 0}, {"window": 0}, {"attacks": {}}])
def test_settings_that_would_measure_nothing_are_refused(settings):
    with pytest.raises(ValueError, match="at least 1"):
        live_leak(**settings)


def test_labels_that_do_not_fit_are_refused_even_when_no_attack_is_due():
    with pytest.raises(ValueError, match=r"labels must have shape \(4,\)"):
        observe(live_leak(every=7), 1, [1, 1, 0, 0], labels=LABELS[:3])


def test_listeners_are_told_the_worst_attack_and_the_median():
    told = []
    live = live_leak(every=2, listeners=(told.append,))
    observe_and_send(live, 0, [0, 0, 0, 0], second=[1, 1, 0, 0])
    observe_and_send(live, 1, [1, 1, 0, 0])  # not due
    observe_and_send(live, 2, [1, 0, 0, 0])  # 3/4
    assert [(r.step, r.attack, r.leak_auc, r.median, r.batches) for r in told] == [
        (0, "second", 1.0, 1.0, 1),
        (2, "first", 0.75, 0.875, 2),
    ]


def test_s2_listeners_are_told_once_the_reply_has_left():
    """What they do takes a time that depends on the batch having a reading, and on its number."""
    told = []
    live = live_leak(every=2, listeners=(told.append,))
    observe(live, 0, [1, 1, 0, 0])
    assert told == []
    live.on_progress(1, 10, 4)
    assert [reading.step for reading in told] == [0]
    live.on_progress(2, 10, 4)  # its step was not due
    assert len(told) == 1


def test_what_stops_a_training_does_so_before_the_reply_leaves():
    def stop(reading):
        assert (reading.step, reading.median) == (0, 1.0)
        raise LeakStopError("enough")

    told = []
    live = live_leak(every=1, listeners=(told.append,), stop=stop)
    with pytest.raises(LeakStopError, match="enough"):
        observe(live, 0, [1, 1, 0, 0])
    assert told == []
    live.tell_listeners()
    live.tell_listeners()
    assert [reading.step for reading in told] == [0]
