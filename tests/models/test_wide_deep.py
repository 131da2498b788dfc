import pytest
import torch

from cutlayer.models import CodedColumns, OneHotColumns, WideDeepBottom, WideDeepTop


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def columns(examples=6):
    """Two numbers, then a category with three slots."""
    slots = torch.eye(3)[torch.arange(examples) % 3]
    return torch.cat([torch.randn(examples, 2, generator=generator(5)), slots], dim=1)


def test_bottom_by_hand():
    bottom = WideDeepBottom(OneHotColumns(5, [(2, 5)]), 4, [7], generator(), embedding=2)
    x = columns()
    category = x[:, 2:].argmax(dim=1)
    embedded = bottom.embedded.tables[0].weight.T[category]  # the look-up, spelled out
    first, last = bottom.deep[0], bottom.deep[2]
    hidden = torch.cat([x[:, :2], embedded], 1) @ first.weight.T + first.bias
    deep = hidden.clamp(min=0) @ last.weight.T + last.bias
    wide = x @ bottom.wide.weight.T + bottom.wide.bias
    assert torch.allclose(bottom(x), torch.cat([deep, wide], dim=1), atol=1e-6)
    assert bottom(x).shape == (6, 4)


@pytest.mark.parametrize("none", [OneHotColumns(0), CodedColumns(0, [])], ids=type)
def test_the_wide_logit_reaches_the_loss_through_the_cut_alone(none):
    top = WideDeepTop(4, none, [7], generator())
    activation = torch.randn(6, 4, generator=generator(1)).requires_grad_()
    top(activation, torch.zeros(6, 0)).sum().backward()
    assert torch.equal(activation.grad[:, -1], torch.ones(6))
    assert activation.grad[:, :-1].abs().sum() > 0


def test_the_label_partys_wide_part_covers_its_own_columns():
    top = WideDeepTop(4, OneHotColumns(5, [(2, 5)]), [7], generator())
    own = columns().requires_grad_()
    activation = torch.randn(6, 4, generator=generator(1))
    logit = top(activation, own)
    without = logit - own @ top.wide.weight.T.squeeze(1) - top.wide.bias
    for parameter in top.wide.parameters():
        parameter.data.zero_()
    assert torch.allclose(top(activation, own), without, atol=1e-6)


def test_cut_width_one_leaves_no_room_for_the_deep_part():
    with pytest.raises(ValueError, match="cut_width"):
        WideDeepBottom(OneHotColumns(5), 1, [7], generator())
    with pytest.raises(ValueError, match="cut_width"):
        WideDeepTop(1, OneHotColumns(5), [7], generator())
