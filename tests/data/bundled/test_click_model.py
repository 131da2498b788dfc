import numpy as np
import pytest
from scipy.stats import zipfian

from cutlayer.data.bundled.click_model import ClickModel, vocabulary_of, zipf_shares

OPTIONS = {"numeric": 3, "categorical": 2, "positive_share": 0.06, "signal": 1.5, "seed": 0}


def share_by_integration(model: ClickModel) -> float:
    """Expected share of positives: all pairs of categories, and quadrature over the numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    chances = weights / weights.sum()
    logits = model.intercept + nodes * np.sqrt(model.weight @ model.weight)
    for effect, share in zip(model.effect, model.share, strict=True):
        logits = np.add.outer(logits, effect).ravel()
        chances = np.multiply.outer(chances, share).ravel()
    return float(chances @ (1 / (1 + np.exp(-logits))))


@pytest.mark.parametrize("positive_share", [1e-3, 0.06, 0.5, 0.97])
@pytest.mark.parametrize(("numeric", "categorical"), [(3, 0), (0, 2), (2, 2)])
def test_the_intercept_meets_the_share(numeric, categorical, positive_share):
    options = OPTIONS | {"numeric": numeric, "categorical": categorical}
    model = ClickModel.drawn(**options | {"positive_share": positive_share})
    assert share_by_integration(model) == pytest.approx(positive_share, rel=1e-9)


def test_the_logit_has_the_stated_deviation():
    model = ClickModel.drawn(**OPTIONS)
    variance = float(model.weight @ model.weight)
    for effect, share in zip(model.effect, model.share, strict=True):
        mean = sum(s * e for s, e in zip(share, effect, strict=True))
        assert mean == pytest.approx(0, abs=1e-12)
        variance += sum(s * (e - mean) ** 2 for s, e in zip(share, effect, strict=True))
    assert variance == pytest.approx(1.5**2, rel=1e-12)


def test_probability_by_hand():
    model = ClickModel(-1.0, np.array([2.0]), (np.array([0.5, -0.5]),), (np.array([0.5, 0.5]),))
    # Logits -1 + 2 * 1 + 0.5 = 1.5 and -1 + 0 - 0.5 = -1.5.
    chance = model.probability([np.array([1.0, 0.0])], [np.array([0, 1])])
    expected = [1 / (1 + np.exp(-1.5)), 1 / (1 + np.exp(1.5))]
    np.testing.assert_allclose(chance, expected, rtol=1e-14)


@pytest.mark.parametrize("exponent", [0.5, 1.1, 2.0])
def test_shares_follow_zipfs_law(exponent):
    expected = zipfian.pmf(np.arange(1, 161), exponent, 160)
    np.testing.assert_allclose(zipf_shares(160, exponent), expected, rtol=1e-9)


def test_vocabularies_in_turn():
    assert [vocabulary_of(field) for field in range(7)] == [10, 40, 160, 640, 2560, 10, 40]


@pytest.mark.parametrize(
    "wrong",
    [
        {"numeric": 0, "categorical": 0},
        {"numeric": -1},
        {"positive_share": 0.0},
        {"positive_share": 1.0},
        {"signal": 0.0},
        {"signal": 11.0},
        {"seed": -1},
    ],
)
def test_options_outside_their_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        ClickModel.drawn(**OPTIONS | wrong)
    with pytest.raises(ValueError, match="must"):
        ClickModel.drawn(**OPTIONS).expected_share(100.0)
