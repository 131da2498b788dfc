"""The audit that attacks outgoing batches from inside the label party."""

import pytest
import torch

from cutlayer.attacks import Attack
from cutlayer.audits.live.release_audit import ReleaseAudit, usual_spacing
from cutlayer.transcript import Release

RECORDS, STEPS_PER_EPOCH = 40, 4
LABELS = (torch.arange(RECORDS) % 4 == 0).long()


def read_after(first_step, epochs=6, every=1):
    """Epochs after which a training was measured whose audit began at a step."""
    generator = torch.Generator().manual_seed(0)
    audit = ReleaseAudit(LABELS, generator=torch.Generator(), every=every)
    step = 0
    for epoch in range(epochs):
        for rows in torch.randperm(RECORDS, generator=generator).chunk(STEPS_PER_EPOCH):
            sent = torch.randn(len(rows), 3, generator=generator)
            if step >= first_step:
                release = Release(step, epoch, rows, torch.zeros(len(rows), 3), sent)
                audit.on_release(release, LABELS[rows], sent)
            step += 1
    measured = audit.result().measurements
    assert any(m.releases == "all" and m.leak_auc is not None for m in measured)
    return {m.epochs for m in measured if m.releases == "some"}


def test_the_first_epochs_of_a_whole_training_are_measured():
    assert read_after(first_step=0) == {1, 5}


@pytest.mark.parametrize("first_step", [1, STEPS_PER_EPOCH, 5 * STEPS_PER_EPOCH])
def test_the_rest_of_a_training_tells_nothing_of_its_first_epochs(first_step):
    """One message of epoch 6 once stood in the report as "after 1 epoch" and "after 5 epochs"."""
    assert read_after(first_step) == set()


def test_some_messages_of_the_first_epochs_do_not_stand_for_all():
    assert read_after(first_step=0, every=3) == set()


def audited_steps(every, steps, seed=0, begin=0):
    """Which steps an audit looked at, by the hints that its attack was given."""
    looked = []

    def look(gradient):
        looked.append(int(gradient[0, 0]))
        return gradient[:, 0]

    generator = torch.Generator().manual_seed(seed)
    attacks = {"look": Attack(look, family="norm")}
    audit = ReleaseAudit(LABELS, generator=generator, every=every, attacks=attacks)
    rows = torch.arange(RECORDS)
    for step in range(begin, steps):
        sent = torch.full((RECORDS, 2), float(step))
        audit.on_release(Release(step, step, rows, sent, sent), LABELS, sent)
    return sorted(set(looked))


def test_one_of_every_so_many_messages_is_attacked_and_nobody_can_foresee_which():
    found = [audited_steps(7, 70, seed) for seed in range(20)]
    assert all([step // 7 for step in steps] == list(range(10)) for steps in found)
    places = [step % 7 for steps in found for step in steps]
    # 200 draws among 7 places: 28.6 each, deviation sqrt(200 * 6 / 49) = 4.95.
    assert all(abs(places.count(place) - 200 / 7) < 5 * 4.95 for place in range(7))


def test_all_messages_are_attacked_where_every_is_one():
    assert audited_steps(1, 6) == list(range(6))


@pytest.mark.parametrize(
    ("messages", "spacing"), [(1, 1), (39, 1), (40, 2), (999, 49), (1000, 50), (10**6, 50)]
)
def test_the_usual_spacing_takes_two_percent_or_twenty(messages, spacing):
    assert usual_spacing(messages) == spacing
    assert messages // spacing >= min(messages, 20)


@pytest.mark.parametrize("begin", [1, 5, 9])
def test_a_start_in_the_middle_draws_among_what_is_left(begin):
    found = [audited_steps(10, 20, seed, begin=begin) for seed in range(30)]
    assert all(len(steps) == 2 and begin <= steps[0] < 10 <= steps[1] for steps in found)
