"""The audit that attacks outgoing batches from inside the label party."""

import pytest
import torch

from cutlayer.audits.release_audit import ReleaseAudit
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
