import pytest
import torch
from sklearn.decomposition import PCA
from torch import nn

from cutlayer.errors import ConfigurationError
from cutlayer.models import Top, frozen_projection, mlp, require_row_independence


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_mlp_is_linear_relu_linear():
    model = mlp([3, 5, 2], generator())
    assert [type(layer) for layer in model] == [nn.Linear, nn.ReLU, nn.Linear]
    x = torch.randn(4, 3)
    first, last = model[0], model[2]
    by_hand = (x @ first.weight.T + first.bias).clamp(min=0) @ last.weight.T + last.bias
    assert torch.allclose(model(x), by_hand, atol=1e-6)


def test_initial_weights_come_from_the_generator_and_nowhere_else():
    state = torch.get_rng_state()
    first, second, other = (mlp([3, 5, 2], generator(s)) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first[0].weight, second[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)
    # U(-1/sqrt(3), 1/sqrt(3)) for three inputs
    assert first[0].weight.abs().max() <= 3**-0.5


def test_sizes_out_of_range_are_refused():
    with pytest.raises(ValueError, match="number of sizes"):
        mlp([3], generator())
    with pytest.raises(ValueError, match="width"):
        mlp([3, 0, 1], generator())


def test_top_reads_both_parties_columns():
    top = Top(4, 2, [8], generator())
    activation, own = torch.randn(5, 4), torch.randn(5, 2)
    assert top(activation, own).shape == (5,)
    assert not torch.equal(top(activation, own), top(activation, own + 1))
    assert Top(4, 0, [8], generator())(activation, torch.zeros(5, 0)).shape == (5,)


def test_frozen_projection_is_whitened_principal_components():
    features = torch.randn(300, 6, generator=generator()) @ torch.randn(
        6, 6, generator=generator(1)
    )
    layer = frozen_projection(features, 4)
    projected = layer(features).double()
    reference = torch.from_numpy(PCA(4, whiten=True).fit_transform(features.double().numpy()))
    assert torch.allclose(projected.abs(), reference.abs(), atol=1e-4)  # up to each sign
    assert torch.allclose(projected.T.cov(), torch.eye(4, dtype=torch.float64), atol=1e-4)
    assert not any(p.requires_grad for p in layer.parameters())


def test_frozen_projection_of_few_columns_fills_with_zeros():
    features = torch.randn(50, 2, generator=generator())
    projected = frozen_projection(features, 5)(features)
    assert torch.equal(projected[:, 2:], torch.zeros(50, 3))


def test_frozen_projection_does_not_blow_up_columns_that_add_nothing():
    one = torch.randn(50, 1, generator=generator())
    projected = frozen_projection(torch.cat([one, 2 * one], dim=1), 2)(torch.cat([one, 2 * one], 1))
    assert projected.abs().max() < 10


def test_what_components_carry_by_hand():
    # Orthogonal columns with squares 4 and 1: the first component is the first column.
    features = torch.tensor([[2.0, 1.0], [2.0, -1.0], [-2.0, 1.0], [-2.0, -1.0]])
    carried = frozen_projection(features, 1).carried
    assert (carried.rank, carried.columns, carried.recovered, carried.most) == (2, 2, 1, 2)
    assert carried.variance == pytest.approx(4 / 5)
    assert not carried.is_copy
    assert not carried.is_nearly_copy
    whole = frozen_projection(features, 2).carried
    assert whole.is_copy
    assert (whole.variance, whole.recovered) == (pytest.approx(1.0), 2)


def dependent(kind):
    """Features of a rank that numpy computes, and who knows it by construction."""
    g = generator()
    numbers = torch.randn(200, 5, generator=g)
    slots = torch.nn.functional.one_hot(torch.randint(4, (200,), generator=g), 4).float()
    return {
        "independent": (numbers, 5),
        "a sum, rounded": (torch.cat([numbers, numbers[:, :1] + numbers[:, 1:2]], 1), 5),
        "one hot": (slots, 3),
        "numbers and one hot": (torch.cat([numbers, slots], 1), 8),
        "twice": (torch.cat([numbers, numbers], 1), 5),
        "a constant": (torch.cat([numbers, torch.ones(200, 1)], 1), 5),
        "fewer records": (numbers[:4], 3),
        "other units": (numbers * torch.tensor([1e3, 1, 1e-2, 1, 1]), 5),
    }[kind]


KINDS = ["independent", "a sum, rounded", "one hot", "numbers and one hot", "twice", "a constant"]


@pytest.mark.parametrize("kind", [*KINDS, "fewer records", "other units"])
def test_features_can_be_computed_from_as_many_components_as_they_have_rank(kind):
    features, rank = dependent(kind)
    for width in range(1, rank + 2):
        layer = frozen_projection(features, width)
        assert layer.carried.rank == rank
        assert layer.carried.is_copy == (width >= rank)
        # Whoever holds the components and knows the features of some records fits the others.
        sent = layer(features).double()
        known = torch.cat([sent, torch.ones(len(sent), 1)], 1)
        centred = features.double() - features.double().mean(0)
        fit = torch.linalg.lstsq(known, centred, driver="gelsd").solution
        left = (known @ fit - centred).var(0)
        recovered = (left <= 0.01 * centred.var(0)) & (centred.var(0) > 0)
        assert layer.carried.recovered == int(recovered.sum())
        if width >= rank:
            assert recovered.sum() == (centred.var(0) > 0).sum()


def test_a_column_that_is_nearly_another_adds_a_rank_but_is_computed_all_the_same():
    numbers = torch.randn(400, 5, generator=generator())
    near = numbers[:, :1] + 1e-3 * torch.randn(400, 1, generator=generator())
    features = torch.cat([numbers, near, torch.ones(400, 1)], 1)
    for width, copy in ((4, False), (5, True), (6, True), (9, True)):
        carried = frozen_projection(features, width).carried
        assert (carried.rank, carried.copy_width, carried.is_copy) == (6, 5, copy)
    # The small column is lost, with 1 / 901 of the variance.
    large = features[:, :2] * torch.tensor([30.0, 1.0])
    carried = frozen_projection(large, 1).carried
    assert (carried.copy_width, carried.is_copy, carried.is_nearly_copy) == (2, False, True)


def test_the_share_of_variance_is_sklearns():
    features = torch.randn(300, 6, generator=generator()) * torch.tensor([3, 1, 1, 0.5, 2, 1.0])
    ratios = PCA().fit(features.double().numpy()).explained_variance_ratio_
    for width in range(1, 7):
        carried = frozen_projection(features, width).carried
        assert carried.variance == pytest.approx(ratios[:width].sum(), rel=1e-9)


def test_features_that_do_not_differ_are_no_copy():
    carried = frozen_projection(torch.ones(10, 3), 3).carried
    assert (carried.rank, carried.copy_width, carried.recovered) == (0, 0, 0)
    assert carried.variance == 0.0
    assert not carried.is_copy


def test_frozen_projection_needs_records():
    with pytest.raises(ValueError, match="records"):
        frozen_projection(torch.randn(1, 3), 2)
    with pytest.raises(ValueError, match="finite"):
        frozen_projection(torch.full((5, 3), torch.nan), 2)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.BatchNorm2d(3), nn.SyncBatchNorm(3)])
def test_layers_that_couple_records_are_refused_by_name(layer):
    with pytest.raises(ConfigurationError, match=f"'inner.1' is a {type(layer).__name__}"):
        require_row_independence(nn.ModuleDict({"inner": nn.Sequential(nn.ReLU(), layer)}), "x")


def test_layers_that_do_not_are_accepted():
    require_row_independence(nn.Sequential(nn.LayerNorm(3), nn.GroupNorm(1, 3)), "label party")
