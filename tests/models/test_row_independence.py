import pytest
import torch
from torch import nn

from cutlayer.errors import ConfigurationError
from cutlayer.models import ConvTop, OneHotColumns, Top, WideDeepTop, require_uncoupled_top

OWN = torch.zeros(12, 2)


class Wrapped(nn.Module):
    """A top of layers that see the activation alone."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers, nn.Linear(4, 1))

    def forward(self, activation, own_features):
        return self.layers(activation).squeeze(1)


class Centred(nn.Module):
    def forward(self, rows):
        return rows - rows.mean(0)


class OwnBatchNorm(nn.Module):
    """Written by hand, so that no list of names knows it."""

    def forward(self, rows):
        return (rows - rows.mean(0)) / (rows.var(0, unbiased=False) + 1e-5).sqrt()


class Attention(nn.Module):
    """Rows look at each other."""

    def forward(self, rows):
        return torch.softmax(rows @ rows.T, dim=1) @ rows


class Neighbour(nn.Module):
    def forward(self, rows):
        return rows + 1e-6 * rows.roll(1, dims=0)


class WhenLarge(nn.Module):
    """Couples rows only where an activation is large."""

    def forward(self, rows):
        return rows + torch.relu(rows - 5).mean(0)


class OfDetachedMean(nn.Module):
    """The mean has no gradient, so no label of another row reaches a row of the message."""

    def forward(self, rows):
        return rows - rows.detach().mean(0)


@pytest.mark.parametrize("layer", [Centred, OwnBatchNorm, Attention, Neighbour, WhenLarge])
def test_n10_a_top_that_couples_rows_is_refused_whatever_its_layers_are_called(layer):
    with pytest.raises(ConfigurationError, match="label party: the top Wrapped couples the rec"):
        require_uncoupled_top(Wrapped(layer()), 4, OWN, "label party")


@pytest.mark.parametrize(
    "top",
    [
        Top(4, 2, [8], torch.Generator().manual_seed(0)),
        WideDeepTop(4, OneHotColumns(2), [8], torch.Generator().manual_seed(0)),
        ConvTop((1, 2, 2), 2, 1, [4], torch.Generator().manual_seed(0)),
        Wrapped(nn.LayerNorm(4), nn.Dropout(0.5)),
        Wrapped(nn.GroupNorm(2, 4), nn.GELU()),
        Wrapped(OfDetachedMean()),
    ],
    ids=lambda top: type(top).__name__,
)
def test_n10_tops_that_treat_each_row_by_itself_are_accepted(top):
    require_uncoupled_top(top, 4, OWN, "label party")


def test_the_probe_leaves_no_trace():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, rows):
            self.calls += 1
            return nn.functional.dropout(rows, 0.5, self.training)

    top = Wrapped(Counting()).eval()
    before = torch.random.get_rng_state()
    require_uncoupled_top(top, 4, OWN, "label party")
    assert torch.equal(before, torch.random.get_rng_state())
    assert top.layers[0].calls == 0
    assert not top.training
    assert all(p.grad is None for p in top.parameters())


def test_a_top_that_breaks_another_rule_is_left_to_that_rule():
    class Constant(nn.Module):
        def forward(self, activation, own_features):
            return torch.zeros(3)

    require_uncoupled_top(Constant(), 4, OWN, "label party")
