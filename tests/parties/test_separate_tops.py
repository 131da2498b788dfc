"""Tops that share anything: refused before the first message, however they are tied."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from cutlayer.errors import ConfigurationError
from cutlayer.parties.compute import Compute
from cutlayer.parties.separate_tops import require_separate_tops
from cutlayer.parties.top_trainer import ResidualTopTrainer, top_trainer_for
from cutlayer.protections import Residual
from cutlayer.rng import SeededNoise
from tests.parties.conftest import make_top, question, run_pair, tables, terms


class Top(nn.Module):
    """Any layer between activation and logit; own features are not used."""

    def __init__(self, layer=None):
        super().__init__()
        self.layer = layer if layer is not None else nn.Linear(4, 1)

    def forward(self, activation, own_features):
        del own_features
        return self.layer(activation)[:, 0]


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def head(message, prediction, make_optimizer=sgd):
    return ResidualTopTrainer(
        message, prediction, Residual(sigma=1.0), make_optimizer, SeededNoise(0), Compute()
    )


def asked(step=0, rows=8):
    g = torch.Generator().manual_seed(step)
    activation = torch.randn(rows, 4, generator=g)
    return question(step, activation, torch.ones(rows, 1), torch.arange(rows) % 2)


def one_module():
    top = Top()
    return top, top


def one_layer():
    layer = nn.Linear(4, 1)
    return Top(layer), Top(layer)


def one_parameter():
    message, prediction = Top(), Top()
    prediction.layer.bias = message.layer.bias
    return message, prediction


def one_storage():
    message, prediction = Top(), Top()
    prediction.layer.weight = nn.Parameter(message.layer.weight.data)
    return message, prediction


def views_of_one_block():
    block = torch.zeros(10)
    message, prediction = Top(), Top()
    message.layer.weight = nn.Parameter(block[:4].view(1, 4))
    prediction.layer.weight = nn.Parameter(block[5:9].view(1, 4))
    return message, prediction


def overlapping_memory_of_numpy():
    block = np.zeros(12, dtype=np.float32)
    message, prediction = Top(), Top()
    message.layer.weight = nn.Parameter(torch.from_numpy(block[:4]).view(1, 4))
    prediction.layer.weight = nn.Parameter(torch.from_numpy(block[3:7]).view(1, 4))
    return message, prediction


def one_buffer():
    message, prediction = Top(), Top()
    scale = torch.ones(1)
    message.register_buffer("scale", scale)
    prediction.register_buffer("scale", scale.view(1, 1), persistent=False)
    return message, prediction


def tied_deep_inside():
    table = nn.Linear(4, 4)
    message = Top(nn.Sequential(nn.Sequential(table, nn.ReLU()), nn.Linear(4, 1)))
    prediction = Top(
        nn.Sequential(nn.Linear(4, 4), nn.ModuleDict({"x": table})["x"], nn.Linear(4, 1))
    )
    return message, prediction


def weight_norm_of_one_layer():
    layer = parametrizations.weight_norm(nn.Linear(4, 1))
    return Top(layer), Top(nn.Sequential(layer))


def one_parametrization():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.ones(()))

        def forward(self, weight):
            return self.factor * weight

    scaled, tops = Scaled(), (Top(), Top())
    for top in tops:
        parametrize.register_parametrization(top.layer, "weight", scaled)
    return tops


def the_other_top_in_a_list():
    message, prediction = Top(), Top()
    message.teachers = [{"best": (prediction,)}]
    return message, prediction


def the_other_weight_in_an_attribute():
    message, prediction = Top(), Top()
    message.layer.peer = prediction.layer.weight.detach()
    return message, prediction


TIED = [
    one_module,
    one_layer,
    one_parameter,
    one_storage,
    views_of_one_block,
    overlapping_memory_of_numpy,
    one_buffer,
    tied_deep_inside,
    weight_norm_of_one_layer,
    one_parametrization,
    the_other_top_in_a_list,
    the_other_weight_in_an_attribute,
]


@pytest.mark.parametrize("tie", TIED)
@pytest.mark.parametrize("swapped", [False, True])
def test_tops_that_share_are_refused(tie, swapped):
    message, prediction = tie()
    if swapped:
        message, prediction = prediction, message
    with pytest.raises(ConfigurationError, match=r"label party: .* (share memory|one module)"):
        head(message, prediction)


def test_head_for_refuses_a_factory_that_gives_one_top_twice():
    top = Top()
    with pytest.raises(ConfigurationError, match="one module"):
        top_trainer_for(Residual(sigma=1.0), lambda name: top, sgd, SeededNoise(0), Compute())


def tops_that_are_separate():
    shared = torch.ones(3)
    activation = nn.GELU()
    message, prediction = Top(nn.Sequential(activation, nn.Linear(4, 1))), None
    prediction = copy.deepcopy(message)
    prediction.layer[0] = activation
    message.constant = prediction.constant = shared  # in no optimizer, and no buffer
    message.register_buffer("empty", torch.zeros(0))
    prediction.register_buffer("empty", torch.zeros(0))
    return message, prediction


@pytest.mark.parametrize(
    "make",
    [
        tops_that_are_separate,
        lambda: (Top(nn.LazyLinear(1)), Top(nn.LazyLinear(1))),
        lambda: (Top(parametrizations.weight_norm(nn.Linear(4, 1))), Top()),
    ],
    ids=["copies", "lazy", "weight_norm"],
)
def test_tops_that_do_not_share_learn(make):
    trained = head(*make())
    for step in range(3):
        answer = trained.answer(asked(step))
        trained.update(complete=step != 1)  # one batch of two messages among them
        assert answer.gradient.abs().sum() > 0


def test_lists_that_hold_themselves_end():
    message, prediction = Top(), Top()
    message.notes = []
    message.notes.append(message.notes)
    message.itself = [message]
    require_separate_tops(message, prediction)


# --- Ties that appear only when something runs -------------------------------------------------


def test_a_top_that_closes_over_the_other_is_refused_before_its_first_message():
    prediction = Top()

    class Closing(Top):
        def forward(self, activation, own_features):
            return super().forward(activation, own_features) + prediction.layer(activation)[:, 0]

    trained = head(Closing(), prediction)
    with pytest.raises(ConfigurationError, match="of the prediction top"):
        trained.answer(asked())


def test_a_prediction_top_that_trains_the_message_top_is_refused():
    message = Top()

    class Closing(Top):
        def forward(self, activation, own_features):
            return super().forward(activation, own_features) + message.layer(activation)[:, 0]

    trained = head(message, Closing())
    with pytest.raises(ConfigurationError, match="of the message top"):
        trained.answer(asked())


def test_a_tie_made_later_is_refused():
    message, prediction = Top(), Top()
    trained = head(message, prediction)
    trained.answer(asked(0))
    trained.update(complete=True)
    prediction.layer = message.layer
    with pytest.raises(ConfigurationError, match="a step of the other top"):
        trained.answer(asked(1))


def test_weights_copied_into_the_message_top_are_refused():
    message = Top()

    class Copying(Top):
        def forward(self, activation, own_features):
            with torch.no_grad():
                message.layer.weight.copy_(self.layer.weight)
            return super().forward(activation, own_features)

    trained = head(message, Copying())
    with pytest.raises(ConfigurationError, match="of the message top"):
        trained.answer(asked())


def one_optimizer_for_both():
    given = []

    def make(parameters):
        given.extend(parameters)
        return torch.optim.SGD(list(given), lr=0.1)

    return make


def the_first_optimizer_again():
    made = []

    def make(parameters):
        if not made:
            made.append(sgd(parameters))
        return made[0]

    return make


def groups_added_to_the_first():
    made = []

    def make(parameters):
        if made:
            made[0].add_param_group({"params": parameters})
        else:
            made.append(sgd(parameters))
        return made[0]

    return make


def a_parameter_of_both():
    loose = nn.Parameter(torch.ones(1))
    return lambda parameters: sgd([*parameters, loose])


@pytest.mark.parametrize(
    "make",
    [
        one_optimizer_for_both,
        the_first_optimizer_again,
        groups_added_to_the_first,
        a_parameter_of_both,
    ],
)
def test_optimizers_that_share_are_refused(make):
    with pytest.raises(ConfigurationError, match="optimizers of message top"):
        head(Top(), Top(), make())


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_a_parameter_that_an_optimizer_takes_up_later_is_refused(kind, foreach):
    message, prediction = Top(), Top()
    trained = head(message, prediction, lambda p: kind(p, lr=0.1, foreach=foreach))
    trained.optimizers["prediction_top"].add_param_group({"params": list(message.parameters())})
    with pytest.raises(ConfigurationError, match="of the message top"):
        trained.answer(asked())


def test_a_run_of_two_parties_ends_before_a_gradient_is_sent():
    label, other = tables()
    made = {}

    def cached(name, cut_width, own):
        return made.setdefault("top", Top(nn.Linear(4, 1)))

    class Seen:
        releases = 0

        def on_release(self, release, labels, clean):
            self.releases += 1

    seen = Seen()
    with pytest.raises(ConfigurationError, match="one module"):
        run_pair(
            label,
            other,
            protection=Residual(sigma=2.0),
            top=cached,
            observers=lambda agreement, canaries: [seen],
            label_terms=terms(),
        )
    assert seen.releases == 0
    run_pair(label, other, protection=Residual(sigma=2.0), top=make_top)
