"""Noise sources: the distribution, the tail, and that nothing ever repeats."""

import copy
import math
import os
import pickle
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from cutlayer.rng import NoiseSource, SecretNoise, SeededNoise, box_muller, derived_seed

# The longest request that still fits into one block of the secret source, and around it.
BLOCK = 32768


@pytest.fixture(scope="module")
def million() -> np.ndarray:
    return SecretNoise().normal(1_000_000).numpy()


def test_n7_a_million_draws_are_standard_normal(million):
    # Fails by chance once in a million runs.
    critical = stats.kstwo.ppf(1 - 1e-6, len(million))
    assert stats.kstest(million, "norm").statistic < critical


@pytest.mark.parametrize(
    ("power", "mean", "variance"),
    [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)],  # of z^power for a standard normal z
)
def test_moments(million, power, mean, variance):
    error = math.sqrt(variance / len(million))
    assert abs(np.mean(million**power) - mean) <= 5 * error


def test_n7_two_hundred_bins_hold_their_share(million):
    borders = stats.norm.ppf(np.linspace(0, 1, 201)[1:-1])
    counts = np.bincount(np.searchsorted(borders, million), minlength=200)
    # Fails by chance once in a million runs.
    assert stats.chisquare(counts).statistic < stats.chi2.ppf(1 - 1e-6, 199)


def test_n7_kurtosis_and_deviation(million):
    # The standard errors are sqrt(24 / n) = .005 and 1 / sqrt(2 n) = .0007.
    assert abs(stats.kurtosis(million, fisher=False) - 3) < 5 * math.sqrt(24 / len(million))
    assert abs(million.std() - 1) < 0.005


@pytest.mark.slow
def test_n7_the_largest_of_a_hundred_million_draws():
    # P(all below 5.3) = (1 - 1.16e-7)^1e8 = 1e-5.
    source = SecretNoise()
    assert max(source.normal(4_000_000).abs().max().item() for _ in range(25)) >= 5.3


@pytest.mark.parametrize("lag", [1, 2, 16384, 32768, 65536])
@pytest.mark.parametrize("transform", [lambda z: z, lambda z: (z**2 - 1) / math.sqrt(2)])
def test_draws_do_not_depend_on_each_other(million, lag, transform):
    # Cosine and sine of one pair lie half a block apart; blocks follow each other.
    values = transform(million)
    product = values[lag:] * values[:-lag]
    # Products of independent values with mean 0 and variance 1 have mean 0 and variance 1.
    assert abs(product.mean()) <= 5 / math.sqrt(len(product))


def test_the_tail_is_as_heavy_as_it_should_be(million):
    for limit in (3.0, 4.0):
        expected = 2 * stats.norm.sf(limit) * len(million)
        assert abs((np.abs(million) > limit).sum() - expected) <= 5 * math.sqrt(expected) + 1


def words(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def test_n8_the_smallest_uniform_gives_the_largest_radius():
    normals = box_muller(words(0), words(0))
    # u = 2^-53, t = 0: the radius is sqrt(106 ln 2), on the cosine side.
    assert normals[0].item() == pytest.approx(math.sqrt(106 * math.log(2)), rel=1e-15)
    assert normals[0].item() == pytest.approx(8.57, abs=0.005)
    assert normals[1].item() == 0.0


def test_n8_every_border_word_gives_finite_normals():
    borders = words(0, 1, 2**11 - 1, 2**11, 2**63 - 1, 2**63, 2**64 - 2**11, 2**64 - 1)
    radius, angle = (grid.ravel().copy() for grid in np.meshgrid(borders, borders))
    normals = box_muller(radius, angle)
    assert bool(normals.isfinite().all())
    assert normals.abs().max().item() < 8.58
    # u = 1 exactly: radius 0.
    assert box_muller(words(2**64 - 1), words(2**62)).abs().tolist() == [0.0, 0.0]


def test_pairs_equal_the_formula():
    # u = 1/4: w = 2^11 (2^51 - 1); a quarter turn: w = 2^62.
    normals = box_muller(words((2**51 - 1) << 11), words(2**62))
    radius = math.sqrt(-2 * math.log(0.25))
    assert normals[0].item() == pytest.approx(0.0, abs=1e-15)
    assert normals[1].item() == pytest.approx(radius, rel=1e-15)


def test_words_are_kept_without_work_memory():
    radius, angle = words(1 << 40, 1 << 50), words(1 << 30, 1 << 60)
    box_muller(radius, angle)
    assert radius.tolist() == [1 << 40, 1 << 50]
    assert angle.tolist() == [1 << 30, 1 << 60]


@pytest.mark.parametrize(
    "shape", [(), (1,), (3,), (0,), (5, 7), (BLOCK - 1,), (BLOCK,), (BLOCK + 1,), (3, BLOCK, 1)]
)
@pytest.mark.parametrize("source", [SecretNoise(), SeededNoise(0)], ids=repr)
def test_shapes_and_type(source: NoiseSource, shape):
    drawn = source.normal(*shape)
    assert tuple(drawn.shape) == shape
    assert drawn.dtype == torch.float64
    assert len(torch.unique(drawn)) == drawn.numel()


def test_a_source_never_repeats_and_never_writes_into_earlier_noise():
    source = SecretNoise()
    first = source.normal(BLOCK + 3)
    kept = first.clone()
    seen = set(first.tolist())
    for count in (1, 2, 7, BLOCK, 2 * BLOCK):
        assert seen.isdisjoint(source.normal(count).tolist())
    assert torch.equal(first, kept)


def test_two_sources_differ():
    assert set(SecretNoise().normal(1000).tolist()).isdisjoint(SecretNoise().normal(1000).tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_repeat_its_parent():
    source = SecretNoise()
    source.normal(3)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn when threads exist
        child = os.fork()
    if child == 0:  # nothing here may raise into pytest
        os.write(write, source.normal(8).numpy().tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 64))
    os.close(read)
    os.close(write)
    assert len(theirs) == 8
    assert set(theirs.tolist()).isdisjoint(source.normal(8).tolist())


def test_secret_noise_uses_no_torch_generator(monkeypatch):
    def refused(*arguments: object, **settings: object) -> None:
        raise AssertionError("torch's generator was used")

    for name in ("manual_seed", "seed", "randn", "rand", "normal", "randint"):
        monkeypatch.setattr(torch, name, refused)
    before = torch.random.get_rng_state()
    SecretNoise().normal(1000)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_secret_source_cannot_be_copied_or_shown():
    source = SecretNoise()
    with pytest.raises(TypeError):
        pickle.dumps(source)
    assert repr(source) == "SecretNoise()"
    assert not source.reproducible


@pytest.mark.parametrize("make", [lambda s: s, lambda s: s.for_release(3, torch.ones(2))])
def test_a_secret_source_is_neither_saved_nor_there_twice(make, tmp_path):
    source = make(SecretNoise(b"k" * 32))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="secret key"):
            pickle.dumps(source, protocol)
    with pytest.raises(TypeError, match="secret key"):
        torch.save({"noise": source}, tmp_path / "saved.pt")
    for copied in (copy.copy(source), copy.deepcopy([source])[0]):
        assert not torch.equal(copied.normal(4), source.normal(4))


def test_seeded_noise_is_repeated_by_its_seed_and_says_so():
    assert torch.equal(SeededNoise(3).normal(10), SeededNoise(3).normal(10))
    assert not torch.equal(SeededNoise(3).normal(10), SeededNoise(4).normal(10))
    assert SeededNoise(3).reproducible


def test_unit_vectors_have_norm_one_and_no_preferred_direction():
    vectors = SecretNoise().unit_vectors_like(torch.empty(20_000, 5))
    assert torch.allclose(vectors.norm(dim=1), torch.ones(20_000, dtype=torch.float64))
    # Each coordinate has mean 0 and variance 1/5.
    assert vectors.mean(dim=0).abs().max().item() <= 5 * math.sqrt(1 / 5 / 20_000)


def test_normal_like_takes_shape_and_device():
    like = torch.empty(4, 3, dtype=torch.float32)
    drawn = SeededNoise(0).normal_like(like)
    assert drawn.shape == like.shape
    assert drawn.device == like.device
    assert drawn.dtype == torch.float64


@pytest.mark.parametrize(
    ("parts", "digest"),
    [(("tradeoff", 0, "bottom"), "1048320d7613f6"), ((7, 1, 0, "top"), "5fbd0d2953d4a3")],
)
def test_a_derived_seed_is_the_same_for_good(parts, digest):
    # By coreutils: printf tradeoff/0/bottom | b2sum -l 56. Another one would change every sweep.
    assert derived_seed(*parts) == int(digest, 16)
