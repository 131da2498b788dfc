import json
import math
import statistics

import numpy as np
import pytest

from cutlayer.errors import DataError
from cutlayer.preparation.number_statistics import NumberStatistics


def learnt(kind, values, blocks=1):
    made = NumberStatistics.empty(kind, values.shape[1])
    for block in np.array_split(values, blocks):
        made.add(block)
    return made


def test_min_max_by_hand():
    # -2 is the lowest and 6 the highest: 0 -> 2/8, 6 -> 1, 10 -> 12/8, beyond the training rows.
    made = learnt("min-max", np.array([[-2.0], [0.0], [6.0]]))
    scaled = made.scaled(np.array([[-2.0], [0.0], [6.0], [10.0]]), ("a",))
    assert scaled.tolist() == [[0.0], [0.25], [1.0], [1.5]]
    assert scaled.dtype == np.float32


def test_log_is_standardised_after_the_logarithm():
    values = [-5.0, 0.0, 3.0, 100.0]
    curved = [math.copysign(math.log1p(abs(v)), v) for v in values]
    mean, deviation = statistics.fmean(curved), statistics.pstdev(curved)
    scaled = learnt("log", np.array([values]).T).scaled(np.array([values]).T, ("a",))
    assert scaled[:, 0] == pytest.approx([(v - mean) / deviation for v in curved], rel=1e-6)


def test_as_is_changes_nothing():
    values = np.array([[-5.0, 0.0], [3.0, 1e20]])
    assert (learnt("as-is", values).scaled(values, ("a", "b")) == values.astype(np.float32)).all()


@pytest.mark.parametrize("kind", ["min-max", "log"])
def test_one_value_becomes_0(kind):
    made = learnt(kind, np.array([[7.0], [7.0]]))
    assert made.scaled(np.array([[7.0], [9.0]]), ("a",)).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("blocks", [1, 3, 50])
def test_blocks_give_the_moments_of_the_whole(blocks):
    draw = np.random.default_rng(blocks)
    values = 1e8 + draw.standard_normal((100, 2))  # squares of 1e8 would lose the deviation
    made = learnt("min-max", values, blocks)
    for column in range(2):
        numbers = values[:, column].tolist()
        deviation = math.sqrt(made.squares[column] / made.count)
        assert made.mean[column] == pytest.approx(statistics.fmean(numbers), rel=1e-15)
        assert deviation == pytest.approx(statistics.pstdev(numbers), rel=1e-6)
        assert made.low[column], made.high[column] == (min(numbers), max(numbers))


@pytest.mark.parametrize("rows", [0, 3])
def test_json_brings_every_bit_back(rows):
    made = learnt("log", np.random.default_rng(0).standard_normal((rows, 2)))
    again = NumberStatistics.from_json(json.loads(json.dumps(made.to_json())), 2)
    assert again.count == made.count
    for name in ("low", "high", "mean", "squares"):
        assert (getattr(again, name) == getattr(made, name)).all()


def test_a_number_far_beyond_the_training_rows_is_an_error():
    made = learnt("min-max", np.array([[0.0], [1e-10]]))
    with pytest.raises(DataError, match="Column 'a' holds a number"):
        made.scaled(np.array([[1e37]]), ("a",))
