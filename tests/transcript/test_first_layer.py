import pytest
import torch
from torch import nn

from cutlayer.transcript import first_layer_gradient


class Embedded(nn.Module):
    """Codes to vectors, then a plain network: the first trainable layer is the table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 3)
        self.rest = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh())

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.rest(self.table(codes))


class Skipping(nn.Module):
    """The features reach the cut by a second way, round the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(5, 4)  # registered first, runs last
        self.first = nn.Linear(5, 5)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(features)) + features)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(5, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)
    )


def frozen_start() -> nn.Module:
    half = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 4))
    half[0].requires_grad_(False)
    return half


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(6, 4)
    )


def normalised() -> nn.Module:
    half = nn.Sequential(
        nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Tanh(), nn.Linear(6, 4)
    )
    half(torch.randn(50, 5))  # running statistics other than 0 and 1
    return half.eval()


CASES = {
    "mlp": (mlp, lambda half: half[0], 8),
    "frozen start": (frozen_start, lambda half: half[1], 7),
    "convolution": (convolution, lambda half: half[1], 6),
    "batch norm in eval mode": (normalised, lambda half: half[0], 6),
    "skipping": (Skipping, lambda half: half.first, 5),
    "embedding": (Embedded, lambda half: half.table, 6),
}


def one_by_one(half, layer, features, cut_gradient):
    """Each example by itself, through autograd as a training would do it."""
    rows = []
    for j in range(len(features)):
        kept = []
        hook = layer.register_forward_hook(lambda _, __, output, kept=kept: kept.append(output))
        activation = half(features[j : j + 1])
        hook.remove()
        (row,) = torch.autograd.grad((activation[0] * cut_gradient[j]).sum(), kept[0])
        rows.append(row.reshape(-1))
    return torch.stack(rows)


@pytest.mark.parametrize("case", CASES)
def test_equals_each_example_by_itself(case):
    torch.manual_seed(0)
    make, layer_of, width = CASES[case]
    half = make()
    features = torch.randint(7, (9, 2)) if case == "embedding" else torch.randn(9, 5)
    cut_gradient = torch.randn(9, 4)
    found = first_layer_gradient(half, features, cut_gradient)
    assert found.shape == (9, width)
    expected = one_by_one(half, layer_of(half), features, cut_gradient)
    assert torch.allclose(found, expected, atol=1e-6)


def test_is_what_training_back_propagates_to_the_first_weights():
    # For a linear first layer, the sum over examples of (row x input) is the weight's gradient.
    torch.manual_seed(1)
    half, features, cut_gradient = mlp(), torch.randn(9, 5), torch.randn(9, 4)
    rows = first_layer_gradient(half, features, cut_gradient)
    half(features).backward(cut_gradient)
    assert torch.allclose(rows.T @ features, half[0].weight.grad, atol=1e-5)


def test_a_bottom_of_one_layer_gives_the_cut_gradient_itself():
    cut_gradient = torch.randn(6, 4)
    found = first_layer_gradient(nn.Linear(5, 4), torch.randn(6, 5), cut_gradient)
    assert torch.equal(found, cut_gradient)


@pytest.mark.parametrize("grad_enabled", [True, False])
def test_the_bottom_stays_as_it_was(grad_enabled):
    half = mlp()
    before = {name: value.clone() for name, value in half.state_dict().items()}
    with torch.set_grad_enabled(grad_enabled):
        first_layer_gradient(half, torch.randn(3, 5), torch.randn(3, 4))
    assert half.training
    assert all(parameter.grad is None for parameter in half.parameters())
    assert all(torch.equal(half.state_dict()[name], value) for name, value in before.items())
    assert not any(module._forward_hooks for module in half.modules())


class Centring(nn.Module):
    """Couples rows without being a batch normalisation."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden - hidden.mean(dim=0)


@pytest.mark.parametrize(
    ("half", "message"),
    [
        (
            nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)),
            r"not couple rows, got BatchNorm1d '1' .* call bottom.eval\(\)",
        ),
        (
            nn.Sequential(
                nn.Linear(5, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 4)
            ).eval(),
            "not couple rows, got BatchNorm1d '1'",
        ),
        (nn.Sequential(nn.Linear(5, 4), Centring()), "depends on 2 other rows"),
        (nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.1)), "got Dropout '1' that draws at random"),
        (nn.Sequential(nn.Flatten()), "must have a trainable layer"),
        (nn.Linear(5, 3), r"activation of bottom must have shape \(3, 4\), got \(3, 3\)"),
    ],
)
def test_a_bottom_without_gradients_of_its_own_rows_is_refused(half, message):
    with pytest.raises(ValueError, match=message):
        first_layer_gradient(half, torch.randn(3, 5), torch.randn(3, 4))


def test_a_refused_batch_norm_keeps_its_running_statistics():
    half = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))
    with pytest.raises(ValueError, match="must not couple rows"):
        first_layer_gradient(half, torch.randn(3, 5), torch.randn(3, 4))
    assert torch.equal(half[1].running_mean, torch.zeros(4))


@pytest.mark.parametrize(
    ("features", "cut_gradient", "message"),
    [
        (torch.zeros(2, 5), torch.zeros(3, 4), r"features rows must have shape \(3, 5\)"),
        (torch.zeros(3, 5), torch.zeros(3), "cut_gradient must have shape"),
        (torch.zeros(1, 5), torch.full((1, 4), float("nan")), "cut_gradient must be finite"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(features, cut_gradient, message):
    with pytest.raises(ValueError, match=message):
        first_layer_gradient(mlp(), features, cut_gradient)


def test_one_row_and_dead_units():
    half = mlp()
    half[0].bias.data.fill_(-100.0)  # every ReLU is off
    found = first_layer_gradient(half, torch.zeros(1, 5), torch.ones(1, 4))
    assert not found.any()
