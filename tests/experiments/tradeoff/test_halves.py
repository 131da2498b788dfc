"""The paper's two networks, layer by layer, and what of them decays.

Sizes and L2 weights are those of Li et al. (2022) as their code runs them: Wide & Deep with
embeddings of 4 and 1, L2 0.01 on them, deep part 128-128-128, cut, 128-128-128-1; for images
convolutions of 64 x 4, cut, x 2, then 64 and 1, L2 0.002 on each convolution.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

from cutlayer.data import LABEL_PARTY, NON_LABEL_PARTY
from cutlayer.experiments.tradeoff.configuration import checked
from cutlayer.experiments.tradeoff.halves import Halves, first_layer_of, sizes_of
from cutlayer.parties import InputShape

CODES = {LABEL_PARTY: (5, 3), NON_LABEL_PARTY: (4, 6)}
OWN = InputShape((5,), ((0, 3),))
"""Three slots of a category, then two numbers."""


def halves_of(shape, codes=None, **settings):
    configuration = checked(
        {"data": "breast-cancer", "protections": ["no_noise"], "model": "paper", **settings}
    )
    return Halves(configuration, sizes_of(configuration, shape, codes), seed=0)


def layers_of(half, kind):
    """Outputs and inputs of each layer of a kind, in their order."""
    return [tuple(m.weight.shape[:2]) for m in half.modules() if isinstance(m, kind)]


def wide_deep(codes):
    """Both halves, and a batch of both parties in which every code occurs."""
    halves = halves_of((0,), CODES if codes else None)
    if codes:
        rows = torch.arange(12)
        bottom = halves.bottom(InputShape((4,)))
        top = halves.top("top", halves.sizes.cut_width, InputShape((3,)))
        numbers = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))
        features = torch.cat([numbers[:, :2], torch.stack([rows % 4, rows % 6], 1)], dim=1)
        own = torch.cat([numbers[:, 2:], torch.stack([rows % 5, rows % 3], 1)], dim=1)
        return halves, bottom, top, features, own
    bottom = halves.bottom(OWN)
    top = halves.top("top", halves.sizes.cut_width, OWN)
    slots = torch.eye(3)[torch.arange(12) % 3]
    numbers = torch.randn(12, 2, generator=torch.Generator().manual_seed(1))
    features = torch.cat([slots, numbers], dim=1)
    return halves, bottom, top, features, features.flip(0)


def test_wide_and_deep_on_one_hot_columns_has_the_papers_layers():
    _, bottom, top, _, _ = wide_deep(codes=False)
    # One category of three slots becomes 4 numbers; with two numbers beside it that makes 6.
    assert layers_of(bottom.embedded, nn.Linear) == [(4, 3)]
    assert layers_of(bottom.deep, nn.Linear) == [(128, 6), (128, 128), (128, 128)]
    assert layers_of(bottom.wide, nn.Linear) == [(1, 5)]
    assert layers_of(top.deep, nn.Linear) == [(128, 128 + 6), (128, 128), (128, 128), (1, 128)]
    assert isinstance(bottom.deep[1], nn.ReLU)
    assert isinstance(top.deep[-2], nn.ReLU)


def test_wide_and_deep_on_codes_has_the_papers_layers():
    _, bottom, top, features, own = wide_deep(codes=True)
    assert bottom.embedded.vectors.weight.shape == (4 + 6, 4)
    assert bottom.wide.codes.vectors.weight.shape == (4 + 6, 1)
    assert layers_of(bottom.deep, nn.Linear) == [(128, 2 + 2 * 4), (128, 128), (128, 128)]
    assert layers_of(top.deep, nn.Linear)[0] == (128, 128 + 1 + 2 * 4)
    activation = bottom(features)
    assert activation.shape == (12, 129)  # and the wide logit
    assert top(activation, own).shape == (12,)


def test_the_network_for_images_has_the_papers_layers():
    halves = halves_of((3, 84, 84))
    assert halves.sizes.cut_width == 5 * 5 * 64
    bottom = halves.bottom(InputShape((3, 84, 84)))
    top = halves.top("top", halves.sizes.cut_width, InputShape((0,)))
    assert layers_of(bottom, nn.Conv2d) == [(64, 3), (64, 64), (64, 64), (64, 64)]
    assert layers_of(top, nn.Conv2d) == [(64, 64), (64, 64)]
    assert layers_of(top, nn.Linear) == [(64, 64), (1, 64)]  # 5x5 is halved twice: one pixel


def penalised_like_keras(half, loss):
    """Keras adds L2 * sum of squares to the loss; written out by what each weight belongs to."""
    for module in half.modules():
        if isinstance(module, nn.Conv2d):
            loss = loss + 0.002 * module.weight.square().sum()
        elif isinstance(module, nn.Embedding):
            loss = loss + 0.01 * module.weight.square().sum()
    for table in getattr(getattr(half, "embedded", None), "tables", ()):
        loss = loss + 0.01 * table.weight.square().sum()
    if isinstance(getattr(half, "wide", None), nn.Linear):
        loss = loss + 0.01 * half.wide.weight.square().sum()
    return loss


def image_model():
    halves = halves_of((3, 64, 64))
    bottom = halves.bottom(InputShape((3, 64, 64)))
    top = halves.top("top", halves.sizes.cut_width, InputShape((0,)))
    images = torch.rand(12, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    return halves, bottom, top, images, torch.zeros(12, 0)


@pytest.mark.parametrize(
    "made",
    [lambda: wide_deep(codes=False), lambda: wide_deep(codes=True), image_model],
    ids=["one-hot", "codes", "images"],
)
def test_what_the_paper_regularises_decays_as_under_its_penalty_and_nothing_else(made):
    (halves, *ours), (_, *theirs) = made(), made()
    labels = (torch.arange(12) % 2).float()
    optimizers = [
        [halves.optimizer(list(half.parameters())) for half in ours[:2]],
        [torch.optim.Adam(half.parameters(), lr=1e-3) for half in theirs[:2]],
    ]
    for penalised, (bottom, top, features, own), own_optimizers in zip(
        (False, True), (ours, theirs), optimizers, strict=True
    ):
        for module in (*bottom.modules(), *top.modules()):
            if penalised and isinstance(module, nn.Embedding):
                module.sparse = False  # torch's Adam wants it dense; every code is in the batch
        for _ in range(3):
            # A weak loss: where a weight goes hangs on the penalty, if it has one.
            logit = top(bottom(features).flatten(1), own)
            loss = 1e-3 * functional.binary_cross_entropy_with_logits(logit, labels)
            if penalised:
                loss = penalised_like_keras(top, penalised_like_keras(bottom, loss))
            bottom.zero_grad()
            top.zero_grad()
            loss.backward()
            for optimizer in own_optimizers:
                optimizer.step()
    for mine, others in zip(ours[:2], theirs[:2], strict=True):
        known = dict(others.named_parameters())
        for name, weight in mine.named_parameters():
            assert torch.allclose(weight, known[name], atol=1e-5), name


@pytest.mark.parametrize("extra", [0, 1], ids=["of the deep part", "with the wide logit"])
def test_the_first_layer_of_wide_and_deep_is_the_first_hidden_one(extra):
    _, bottom, _, features, _ = wide_deep(codes=True)
    gradient = torch.randn(12, 128 + extra, generator=torch.Generator().manual_seed(2))
    seen = []
    hook = bottom.deep[0].register_forward_hook(lambda *call: seen.append(call[2]))
    activation = bottom(features)
    hook.remove()
    (expected,) = torch.autograd.grad((activation[:, : 128 + extra] * gradient).sum(), seen[0])
    assert torch.allclose(first_layer_of(bottom, features, gradient), expected, atol=1e-6)


def test_the_first_layer_of_images_is_the_first_convolution():
    _, bottom, _, images, _ = image_model()
    gradient = torch.randn(12, 4 * 4 * 64, generator=torch.Generator().manual_seed(2))
    output = bottom[0](images)
    activation = bottom[1:](output).flatten(1)
    (expected,) = torch.autograd.grad((activation * gradient).sum(), output)
    carried = first_layer_of(bottom, images, gradient)
    assert torch.allclose(carried, expected.flatten(1), atol=1e-6)
