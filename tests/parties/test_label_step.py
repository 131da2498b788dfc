"""One step of the label party over a real session, without the rest of a training."""

import pytest
import torch
from torch import nn

from cutlayer.data import MicroBatch
from cutlayer.errors import ProtectionError, ProtocolError
from cutlayer.parties import Compute, ReleaseJournal
from cutlayer.parties.agreement import Agreement
from cutlayer.parties.canaries import Canaries
from cutlayer.parties.inputs import Inputs, InputShape
from cutlayer.parties.label_step import LabelStep, ReleaseRecord
from cutlayer.parties.observers import ReleaseKeeper
from cutlayer.parties.record_marks import RecordMarks
from cutlayer.parties.top_half import Prepared, Sent
from cutlayer.parties.top_trainer import GradientTopTrainer
from cutlayer.protections import Isotropic, NoNoise
from cutlayer.protocol import Kind, Role, Session, Shape, in_memory_pair
from cutlayer.rng import SecretNoise, tensor_digest
from tests.parties.conftest import QUICK, adam, terms
from tests.protocol.test_session import shake

TRAIN = torch.tensor([7, 2, 9, 4])  # record numbers of the training, in the common order
ROWS = torch.tensor([2, 0, 3])  # of which this message has three
LABELS = torch.tensor([0, 0, 1, 0, 1, 0, 0, 0, 0, 1])
ACTIVATION = torch.tensor([[0.5, -1.0, 2.0, 0.25], [1.0, 1.0, 1.0, 1.0], [0.0, -2.0, 0.5, 3.0]])
WEIGHT = torch.tensor([[0.5, -0.25, 1.0, 0.125]])
SHAPE = Shape(3, 4)


class LinearTop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1, bias=False)
        self.layer.weight.data = WEIGHT.clone()

    def forward(self, activation, own):
        return self.layer(activation).squeeze(1) + 0 * own.sum(1)


class Notes(ReleaseKeeper):
    """Writes down what it is shown, and what the journal knew by then."""

    def __init__(self, journal=None):
        self.journal, self.releases, self.copies, self.answered = journal, [], [], []

    def on_release(self, release, labels, clean_gradient):
        self.releases.append((release, labels, clean_gradient))
        self.answered.append(self.journal.released if self.journal else None)

    def on_copy(self, release, labels, clean_gradient):
        self.copies.append((release, labels, clean_gradient))

    def on_checkpoint(self):
        pass


@pytest.fixture
def journal(tmp_path):
    made = ReleaseJournal(tmp_path / "journal", "x")
    made.bind({"terms": "t", "records": "r", "order": "o", "steps_per_epoch": "4"})
    yield made
    made.close()


def stepping(protection, journal=None, observers=(), noise=None):
    """A step and the non-label party's end of its session."""
    here, there = in_memory_pair()
    label = Session(Role.LABEL, here, run="run", deadlines=QUICK)
    other = Session(Role.NON_LABEL, there, run="run", deadlines=QUICK)
    shake(label, other)
    nothing = torch.zeros(0, dtype=torch.int64)
    agreement = Agreement(tuple(map(str, range(10))), TRAIN, nothing, nothing, 1, 0, 0)
    inputs = Inputs(torch.zeros(10, 2), InputShape((2,)), None)
    marks = RecordMarks(torch.zeros(4, 0, dtype=torch.uint8), {})
    canaries = Canaries(LABELS, torch.zeros(10, dtype=torch.bool))
    prepared = Prepared(agreement, inputs, canaries, LABELS, marks)
    trainer = GradientTopTrainer(
        LinearTop(), protection, adam, noise or SecretNoise(bytes(32)), Compute()
    )
    sent = Sent(0)
    record = ReleaseRecord(journal, observers, sent)
    step = LabelStep(
        label, trainer, prepared, record, terms=terms(), compute=Compute(), cadence=0.0
    )
    return step, other, sent


def part(step=0):
    return MicroBatch(step, 0, ROWS, 1.0, step, completes=True)


def expected_gradient():
    """(sigmoid(w.a) - y) w / 3, the labels those of records 9, 7 and 4."""
    residual = torch.sigmoid(ACTIVATION @ WEIGHT[0]) - torch.tensor([1.0, 0.0, 1.0])
    return residual[:, None] * WEIGHT / 3


def test_the_reply_is_the_gradient_of_the_mean_loss_at_the_records_of_the_message():
    step, other, sent = stepping(NoNoise())
    other.send_tensor(Kind.ACTIVATION, ACTIVATION, step=0)
    step.run(part())
    reply = other.receive_tensor(Kind.GRADIENT, SHAPE, step=0)
    torch.testing.assert_close(reply, expected_gradient())
    assert (sent.releases, sent.rows) == (1, 3)


def test_observers_see_what_is_sent_once_it_is_on_record_and_before_it_leaves(journal):
    notes = Notes(journal)
    step, other, _ = stepping(Isotropic(t=1.0), journal, (notes,))
    other.send_tensor(Kind.ACTIVATION, ACTIVATION, step=0)
    step.run(part())
    [(release, labels, clean)] = notes.releases
    reply = other.receive_tensor(Kind.GRADIENT, SHAPE, step=0)
    assert notes.answered == [1]
    assert torch.equal(release.gradient, reply)
    assert not torch.equal(reply, clean)
    torch.testing.assert_close(clean, expected_gradient())
    assert torch.equal(labels, torch.tensor([1, 0, 1]))
    assert release.records.tolist() == [9, 7, 4]
    journal.require_known_request(0, tensor_digest(ACTIVATION))


def test_an_answered_step_gets_the_same_bytes_again_and_is_not_counted(journal):
    replies, counts, notes = [], [], Notes(journal)
    for _ in range(2):  # a second start with the same key and weights
        step, other, sent = stepping(Isotropic(t=1.0), journal, (notes,))
        other.send_tensor(Kind.ACTIVATION, ACTIVATION, step=0)
        step.run(part())
        replies.append(other.receive_tensor(Kind.GRADIENT, SHAPE, step=0))
        counts.append(sent.releases)
    assert torch.equal(*replies)
    assert counts == [1, 0]
    assert (len(notes.releases), len(notes.copies)) == (1, 1)


def test_another_activation_for_an_answered_step_gets_nothing(journal):
    step, other, _ = stepping(Isotropic(t=1.0), journal)
    other.send_tensor(Kind.ACTIVATION, ACTIVATION, step=0)
    step.run(part())
    step, other, sent = stepping(Isotropic(t=1.0), journal)
    other.send_tensor(Kind.ACTIVATION, ACTIVATION + 1, step=0)
    with pytest.raises(ProtocolError, match="step 0 was answered before"):
        step.run(part())
    assert sent.releases == 0
    assert journal.released == 1


def test_a_gradient_that_is_not_finite_is_neither_recorded_nor_sent(journal):
    step, other, sent = stepping(NoNoise(), journal)
    other.send_tensor(Kind.ACTIVATION, ACTIVATION, step=0)
    step._trainer._top.layer.weight.data *= float("nan")
    with pytest.raises(ProtectionError, match="finite"):
        step.run(part())
    assert (sent.releases, journal.released) == (0, 0)


def test_what_is_sent_has_the_type_of_the_wire():
    step, other, _ = stepping(NoNoise())
    step._terms = terms(wire="bfloat16")
    other.send_tensor(Kind.ACTIVATION, ACTIVATION.bfloat16(), step=0)
    step.run(part())
    reply = other.receive_tensor(Kind.GRADIENT, Shape(3, 4, torch.bfloat16), step=0)
    torch.testing.assert_close(reply, expected_gradient().bfloat16())
