"""Tops that are tied past autograd and version counters; and separate tops, which lose nothing."""

import copy
import functools

import pytest
import torch
from torch import nn
from torch.nn import functional

from cutlayer.errors import ConfigurationError
from cutlayer.parties.compute import Compute
from cutlayer.parties.top_trainer import ResidualTopTrainer
from cutlayer.protections import Residual
from cutlayer.rng import SeededNoise
from tests.parties.conftest import question, run_pair, tables, terms

WIDTH = 4


class Linear(nn.Module):
    """A top with one layer."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.lin = nn.Linear(width, 1)

    def forward(self, activation, own_features):
        return self.lin(activation)[:, 0]


class Calling(nn.Module):
    """A top with a function of the activation and a bias."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, activation, own_features):
        return self.function(activation)[:, 0] + self.bias


class Writing(Linear):
    """A top that does something else whenever it is called."""

    def __init__(self, width=WIDTH):
        super().__init__(width)
        self.write = lambda: None

    def forward(self, activation, own_features):
        self.write()
        return super().forward(activation, own_features)


def detached(top, activation):
    return functional.linear(activation, top.lin.weight.detach())


def closure(width=WIDTH):
    prediction = Linear(width)
    return Calling(lambda activation: detached(prediction, activation)), prediction


def copy_at_each_call(width=WIDTH):
    prediction = Linear(width)
    return Calling(lambda activation: copy.deepcopy(prediction.lin)(activation)), prediction


def object_in_an_attribute(width=WIDTH):
    class Box:
        pass

    prediction, box = Linear(width), Box()
    box.top = prediction
    message = Calling(lambda activation: detached(message.box.top, activation))
    message.box = box
    return message, prediction


def partial(width=WIDTH):
    prediction = Linear(width)
    return Calling(functools.partial(detached, prediction)), prediction


def data_written(width=WIDTH):
    message, prediction = Linear(width), Writing(width)
    prediction.write = lambda: message.lin.weight.data.copy_(prediction.lin.weight.data)
    return message, prediction


def constant_written(width=WIDTH):
    constant, prediction = torch.zeros(1, width), Writing(width)
    message = Calling(lambda activation: functional.linear(activation, message.constant))
    message.constant = prediction.constant = constant
    prediction.write = lambda: constant.copy_(prediction.lin.weight.detach())
    return message, prediction


def number_written(width=WIDTH):
    prediction = Writing(width)
    message = Calling(lambda activation: activation * message.factor)
    message.factor = 1.0

    def write():
        message.factor = float(prediction.lin.weight.detach()[0, 0])

    prediction.write = write
    return message, prediction


def gradient_read(width=WIDTH):
    prediction = Linear(width)

    def function(activation):
        gradient = prediction.lin.weight.grad
        return activation if gradient is None else activation + gradient.detach()

    return Calling(function), prediction


def buffer_read(width=WIDTH):
    prediction = Linear(width)
    prediction.register_buffer("count", torch.zeros((), dtype=torch.long))
    return Calling(lambda activation: activation * (1 + prediction.count)), prediction


TIED = [
    closure,
    copy_at_each_call,
    object_in_an_attribute,
    partial,
    data_written,
    constant_written,
    number_written,
    gradient_read,
    buffer_read,
]


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def trainer(message, prediction):
    return ResidualTopTrainer(
        message, prediction, Residual(sigma=1.0), sgd, SeededNoise(0), Compute()
    )


def asked(step=0, activation=None):
    if activation is None:
        activation = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(step))
    return question(step, activation, torch.ones(8, 1), torch.arange(8) % 2, visit=step)


@pytest.mark.parametrize("tie", TIED)
@pytest.mark.parametrize("zeros", [False, True], ids=["as usual", "zeros from the peer"])
def test_tops_that_are_tied_by_behaviour_are_refused(tie, zeros):
    message, prediction = tie()
    asks = asked(activation=torch.zeros(8, WIDTH) if zeros else None)
    with pytest.raises(ConfigurationError, match=r"label party: .*(reads tensors|a step of)"):
        trainer(message, prediction).answer(asks)


@pytest.mark.parametrize("tie", TIED[:6])
def test_no_message_of_learnt_weights_is_sent(tie):
    made = {}

    def top(name, width, own):
        if not made:
            made["message_top"], made["prediction_top"] = tie(width)
        return made[name]

    class Seen:
        releases = 0

        def on_release(self, release, labels, clean):
            self.releases += 1

    seen = Seen()
    with pytest.raises(ConfigurationError, match=r"(reads tensors|a step of)"):
        run_pair(
            *tables(),
            protection=Residual(sigma=2.0),
            top=top,
            observers=lambda agreement, canaries: [seen],
            label_terms=terms(),
        )
    # A copy of weights that are the same already shows once they differ: after the first message,
    # which is made of initial weights and so of no label, and before the second.
    assert seen.releases == (1 if tie in (data_written, constant_written) else 0)


def test_equal_weights_that_are_tied_are_refused_once_they_differ():
    message, prediction = data_written()
    message.lin.load_state_dict(prediction.lin.state_dict())
    trained = trainer(message, prediction)
    trained.answer(asked(0))  # of weights that no label has met
    trained.update(complete=True)
    with pytest.raises(ConfigurationError, match="a step of the prediction top"):
        trained.answer(asked(1))


def test_a_tie_made_later_is_refused_at_the_hundredth_message():
    message, prediction = Writing(), Linear()
    trained = trainer(message, prediction)
    for step in range(3):
        trained.answer(asked(step))
        trained.update(complete=True)
    message.forward = lambda activation, own: (
        message.lin(activation)[:, 0] + float(prediction.lin.bias.detach())
    )
    for step in range(3, 100):
        trained.answer(asked(step))
        trained.update(complete=True)
    with pytest.raises(ConfigurationError, match="reads tensors"):
        trained.answer(asked(100))


def test_a_tensor_in_the_optimizer_step_is_refused():
    message, prediction = Linear(), Linear()
    trained = trainer(message, prediction)
    trained.optimizers["prediction_top"].register_step_post_hook(
        lambda *_: message.lin.weight.data.copy_(prediction.lin.weight.data)
    )
    trained.answer(asked())
    with pytest.raises(ConfigurationError, match="a step of the prediction top"):
        trained.update(complete=True)


# --- Separate tops: accepted, and trained to the bit as without any check -----------------------


class Rich(nn.Module):
    """Every kind of state that a forward pass may change, and constants of odd layouts."""

    def __init__(self, constant):
        super().__init__()
        self.lin = nn.Linear(WIDTH, 6)
        self.norm, self.drop, self.last = nn.BatchNorm1d(6), nn.Dropout(0.3), nn.LazyLinear(1)
        self.constant, self.calls, self.seen = constant, 0, None
        self.register_buffer("wide", torch.ones(1).expand(6))
        self.register_buffer("flag", torch.tensor(True))
        self.register_buffer("sum", torch.zeros(6))
        self.register_buffer("nan", torch.tensor(float("nan")))
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, activation, own_features):
        self.calls += 1
        hidden = functional.relu_(self.norm(self.lin(activation)) * self.wide)
        self.sum = self.sum + hidden.detach().sum(0)
        self.seen = activation
        noise = torch.rand(hidden.shape, generator=self.generator)
        hidden = self.drop(hidden) + noise / self.calls + self.constant
        return self.last(hidden)[:, 0] + self.sum.mean()


def rich_tops():
    torch.manual_seed(3)
    constant = torch.ones(6)
    return Rich(constant), Rich(constant)


def test_separate_tops_train_to_the_bit_as_by_hand():
    message, prediction = rich_tops()
    trained, got = trainer(message, prediction), []
    for step in range(5):
        got.append(trained.answer(asked(step)).gradient)
        trained.update(complete=True)
    state = torch.get_rng_state()

    # By hand: the residual's two heads as docs/theory.md section 6 describes them, unchecked.
    by_hand, other = rich_tops()
    steps, other_steps = sgd(list(by_hand.parameters())), sgd(list(other.parameters()))
    protection, source = Residual(sigma=1.0), SeededNoise(0)
    for step in range(5):
        asks = asked(step)
        leaf = asks.activation.clone().requires_grad_()
        logit = by_hand(leaf, torch.ones(8, 0))
        noise = source.for_visit(step, asks.marks, protection.noise_deviation)
        residual = protection.noisy_residual(logit.detach(), asks.labels, noise=noise)
        steps.zero_grad()
        logit.backward(residual / 8)
        other_steps.zero_grad()
        logit = other(asks.activation, asks.own_features)
        functional.binary_cross_entropy_with_logits(logit, asks.labels.float()).backward()
        steps.step()
        other_steps.step()
        assert torch.equal(got[step], leaf.grad)
    assert torch.equal(state, torch.get_rng_state())
    for one, reference in ((message, by_hand), (prediction, other)):
        assert one.calls == reference.calls == 5
        kept, expected = one.state_dict(), reference.state_dict()
        for name in expected:
            assert torch.equal(kept[name].nan_to_num(7), expected[name].nan_to_num(7)), name


def test_a_top_that_refuses_unusual_activations_is_accepted():
    class Strict(Linear):
        def forward(self, activation, own_features):
            if activation.min() < 0:
                raise ValueError("an activation is below 0")
            return super().forward(activation, own_features)

    trained = trainer(Strict(), Linear())
    trained.answer(asked(activation=torch.rand(8, WIDTH)))
    trained.update(complete=True)


def test_a_prediction_top_may_write_into_its_activation():
    class InPlace(Linear):
        def forward(self, activation, own_features):
            return super().forward(functional.relu_(activation), own_features)

    trainer(Linear(), InPlace()).answer(asked())
