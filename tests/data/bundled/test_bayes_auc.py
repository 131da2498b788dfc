import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cutlayer.data.bundled.bayes_auc import bayes_auc


def counted_pairs(probability: np.ndarray) -> float:
    """The definition itself, pair by pair."""
    ordered = pairs = 0.0
    for i, p in enumerate(probability):
        for j, q in enumerate(probability):
            if i != j:
                pairs += p * (1 - q)
                ordered += p * (1 - q) * (1.0 if p > q else 0.5 if p == q else 0.0)
    return ordered / pairs


def test_value_by_hand():
    # 0.2 and 0.6: the pair is drawn right with .6 * .8 = .48 and wrong with .2 * .4 = .08.
    assert bayes_auc(np.array([0.2, 0.6])) == pytest.approx(0.48 / 0.56, abs=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_equals_the_definition(seed):
    draw = np.random.default_rng(seed)
    probability = draw.beta(0.5, 4.0, size=300)
    probability[:100] = np.round(probability[:100], 1)  # many ties, some of them at 0
    assert bayes_auc(probability) == pytest.approx(counted_pairs(probability), abs=1e-12)


def test_certain_labels_give_their_auc():
    # With probabilities 0 and 1 there is no chance left: the order is perfect.
    assert bayes_auc(np.array([1.0, 0.0, 1.0, 0.0])) == 1.0


def test_one_probability_for_all_orders_nothing():
    assert bayes_auc(np.full(5, 0.3)) == pytest.approx(0.5, abs=1e-15)


def test_is_the_mean_auc_over_many_draws_of_the_labels():
    draw = np.random.default_rng(0)
    probability = draw.uniform(size=400)
    aucs = [roc_auc_score(draw.uniform(size=400) < probability, probability) for _ in range(200)]
    standard_error = np.std(aucs) / np.sqrt(200)
    assert abs(np.mean(aucs) - bayes_auc(probability)) < 5 * standard_error


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        ([], "both classes"),
        ([0.5], "both classes"),
        ([0.0, 0.0], "both classes"),
        ([0.5, 1.5], r"\[0, 1\]"),
        ([0.5, np.nan], r"\[0, 1\]"),
        ([[0.5, 0.5]], "shape"),
    ],
)
def test_undefined_is_an_error(probability, message):
    with pytest.raises(ValueError, match=message):
        bayes_auc(np.array(probability, dtype=np.float64))
