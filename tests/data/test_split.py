import math
from hashlib import blake2b

import numpy as np
import pytest
from scipy.stats import kstest

from cutlayer.data.split import Split, fold_of, hashed_place
from cutlayer.errors import DataError

IDS = [f"client-{i:05d}" for i in range(5000)]


def place_by_hand(name: str, seed: int) -> float:
    """The formula of the docstring in whole numbers, for one id."""
    digest = blake2b(
        name.encode(),
        digest_size=8,
        key=seed.to_bytes(8, "big"),
        person=b"cutlayer split\0\0",
    ).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def test_places_follow_the_formula():
    names = ["a", "", "Zoë", "client-00001"]
    for seed in (0, 7, 2**64 - 1):
        expected = [place_by_hand(name, seed) for name in names]
        assert hashed_place(names, seed=seed).tolist() == expected


def test_places_look_uniform():
    assert kstest(hashed_place(IDS, seed=4), "uniform").pvalue > 1e-6


def test_folds_are_fifths_of_the_places():
    expected = [math.floor(5 * place_by_hand(name, 3)) for name in IDS]
    folds = fold_of(IDS, seed=3, folds=5)
    assert folds.dtype == np.int64
    assert folds.tolist() == expected


def test_shares_stay_within_five_standard_errors():
    counts = np.bincount(fold_of(IDS, seed=0, folds=5), minlength=5)
    assert abs(counts - 1000).max() < 5 * math.sqrt(5000 * 0.2 * 0.8)


def test_another_seed_is_another_split():
    # Two independent splits agree on one fifth of the records: 1000 of 5000.
    same = (fold_of(IDS, seed=0, folds=5) == fold_of(IDS, seed=1, folds=5)).sum()
    assert abs(same - 1000) < 5 * math.sqrt(5000 * 0.2 * 0.8)


def test_every_record_is_tested_in_exactly_one_fold():
    splits = [Split.by_fold(IDS, seed=2, folds=5, test_fold=k) for k in range(5)]
    tested = np.concatenate([split.test.numpy() for split in splits])
    assert sorted(tested.tolist()) == list(range(5000))
    for split in splits:
        together = np.concatenate([split.train.numpy(), split.test.numpy()])
        assert sorted(together.tolist()) == list(range(5000))
        assert len(split.validation) == 0


def test_row_order_and_other_rows_do_not_matter():
    whole = Split.by_shares(IDS, seed=9, validation=0.1, test=0.2)
    backwards = list(reversed(IDS))[: len(IDS) // 2]
    half = Split.by_shares(backwards, seed=9, validation=0.1, test=0.2)
    for part in ("train", "validation", "test"):
        expected = {IDS[i] for i in getattr(whole, part).tolist()}
        got = {backwards[i] for i in getattr(half, part).tolist()}
        assert got == expected & set(backwards)


def test_shares_cut_the_places():
    split = Split.by_shares(IDS, seed=5, validation=0.1, test=0.2)
    places = np.array([place_by_hand(name, 5) for name in IDS])
    assert split.test.tolist() == np.flatnonzero(places < 0.2).tolist()
    middle = (places >= 0.2) & (places < 0.1 + 0.2)
    assert split.validation.tolist() == np.flatnonzero(middle).tolist()
    assert len(split.train) + len(split.validation) + len(split.test) == len(IDS)


def test_records_of_one_group_stay_together():
    patients = [f"patient-{i // 4}" for i in range(400)]
    split = Split.by_fold(patients, seed=0, folds=5, test_fold=0)
    trained = {patients[i] for i in split.train.tolist()}
    assert not trained & {patients[i] for i in split.test.tolist()}


def test_no_validation_and_no_test_is_allowed():
    split = Split.by_shares(IDS, seed=0, validation=0.0, test=0.0)
    assert len(split.train) == len(IDS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": -0.1, "test": 0.2}, "validation"),
        ({"validation": 0.5, "test": 0.5}, "below 1"),
        ({"validation": 0.1, "test": float("nan")}, "test"),
    ],
)
def test_wrong_shares_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Split.by_shares(IDS, seed=0, **options)


@pytest.mark.parametrize(
    ("seed", "folds", "test_fold"), [(-1, 5, 0), (2**64, 5, 0), (0, 1, 0), (0, 5, 5), (0, 5, -1)]
)
def test_numbers_outside_their_range_are_refused(seed, folds, test_fold):
    with pytest.raises(ValueError, match="must be"):
        Split.by_fold(IDS, seed=seed, folds=folds, test_fold=test_fold)


def test_an_empty_part_is_an_error():
    with pytest.raises(DataError, match=r"None of the 1 records falls into the (test|train) part"):
        Split.by_fold(["alone"], seed=0, folds=2, test_fold=0)
    with pytest.raises(DataError, match="None of the 0 records falls into the train part"):
        Split.by_shares([], seed=0, validation=0.0, test=0.0)
