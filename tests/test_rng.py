"""Noise sources: the distribution, the tail, and that nothing ever repeats."""

import copy
import hashlib
import hmac
import math
import os
import pickle
import warnings

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
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


# --- Keys -----------------------------------------------------------------------------------------

KEY = bytes(range(32))
LABELLING = bytes(32)
IDS = [f"r{i}" for i in range(2000)]


def draws(source: SecretNoise) -> dict[str, torch.Tensor]:
    """What a key decides: the noise of a message, and that of a visit."""
    marks = source.marks(IDS, LABELLING)
    return {
        "release": source.for_release(3, torch.ones(4)).normal(len(IDS)),
        "visit": source.for_visit(3, marks, 2.0).normal(len(IDS)),
    }


def assert_unrelated(first: torch.Tensor, second: torch.Tensor) -> None:
    correlation = torch.corrcoef(torch.stack([first, second]))[0, 1].item()
    assert abs(correlation) < 5 / math.sqrt(len(first))


@pytest.mark.parametrize("position", range(32))
def test_every_byte_of_the_key_decides_the_noise(position):
    """A key of which only the first 4 bytes count could be found by trial."""
    changed = bytearray(KEY)
    changed[position] ^= 1
    before, after = draws(SecretNoise(KEY)), draws(SecretNoise(bytes(changed)))
    for name in before:
        assert_unrelated(before[name], after[name])


def rank_of_bits(keys: list[bytes]) -> int:
    """Rank over the field of two elements: the number of bits that vary independently."""
    rows = [int.from_bytes(key, "big") for key in keys]
    rank = 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            top = 1 << (pivot.bit_length() - 1)
            rows = [row ^ pivot if row & top else row for row in rows]
    return rank


def test_every_key_of_the_cipher_has_256_bits(monkeypatch):
    """Also the derived ones, and none is padded, repeated or cut. By chance once in 2**44."""
    keys: list[bytes] = []
    aes = algorithms.AES
    monkeypatch.setattr(algorithms, "AES", lambda key: keys.append(key) or aes(key))
    source = SecretNoise(KEY)
    marks = source.marks(IDS[:1], LABELLING)
    kinds = {
        "in memory": lambda step: SecretNoise().normal(1),
        "release": lambda step: source.for_release(step, torch.ones(1)).normal(1),
        "visit": lambda step: source.for_visit(step, marks, 1.0).normal(1),
    }
    for name, draw in kinds.items():
        keys.clear()
        for step in range(300):
            draw(step)
        assert len(keys) == 300, name
        assert {len(key) for key in keys} == {32}, name
        assert rank_of_bits(keys) == 256, name


@pytest.mark.parametrize("call", [0, 1])
@pytest.mark.parametrize("position", range(32))
def test_every_byte_that_the_system_gave_decides_the_noise(monkeypatch, call, position):
    """Of the key of releases and visits, and of the one that lives in memory only."""

    def source(changed: bool) -> SecretNoise:
        calls = iter(range(2))

        def given(count: int) -> bytes:
            assert count == 32
            drawn = bytearray(KEY)
            if next(calls) == call and changed:
                drawn[position] ^= 1
            return bytes(drawn)

        monkeypatch.setattr(os, "urandom", given)
        return SecretNoise()

    before, after = source(False), source(True)
    if call == 0:
        assert_unrelated(draws(before)["visit"], draws(after)["visit"])
    else:
        assert_unrelated(before.normal(len(IDS)), after.normal(len(IDS)))


@pytest.mark.parametrize("length", [0, 4, 16, 31, 33])
def test_a_key_of_another_length_is_refused(length):
    with pytest.raises(ValueError, match="32 bytes"):
        SecretNoise(bytes(length))


# --- Visits ---------------------------------------------------------------------------------------


def by_definition(key: bytes, labelling: bytes, visit: int, scale: float, name: str) -> float:
    """The noise of one record, from the formulas in the documentation, block by block."""
    mark_key = hmac.new(key, b"records" + labelling, hashlib.sha256).digest()
    mark = hashlib.blake2b(name.encode(), key=mark_key, digest_size=16).digest()
    context = b"visit" + visit.to_bytes(8, "little") + np.float64(scale).tobytes()
    visit_key = hmac.new(key, context, hashlib.sha256).digest()
    cipher = Cipher(algorithms.AES(visit_key), modes.ECB())  # noqa: S305  one block
    block = cipher.encryptor().update(mark)
    radius, angle = (int.from_bytes(block[i : i + 8], "little") >> 11 for i in (0, 8))
    return math.sqrt(-2 * math.log((radius + 1) / 2**53)) * math.cos(math.tau * angle / 2**53)


@pytest.mark.parametrize(("visit", "scale"), [(0, 1.0), (7, 0.3)])
def test_the_noise_of_a_visit_equals_its_definition(visit, scale):
    source = SecretNoise(KEY)
    names = ["r1", "r2", "naïve", ""]
    drawn = source.for_visit(visit, source.marks(names, b"labels"), scale).normal(4)
    expected = [by_definition(KEY, b"labels", visit, scale, name) for name in names]
    assert drawn.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_noise_of_a_visit_is_the_same_in_any_company_and_order():
    source, again = SecretNoise(KEY), SecretNoise(KEY)
    marks = source.marks(IDS, LABELLING)
    whole = source.for_visit(5, marks, 1.0).normal(len(IDS))
    source.normal(7)  # nothing that was drawn before matters
    source.for_release(5, whole).normal(9)
    order = torch.randperm(len(IDS), generator=torch.Generator().manual_seed(0))[:500]
    part = again.for_visit(5, again.marks([IDS[i] for i in order], LABELLING), 1.0).normal(500)
    assert torch.equal(part, whole[order])


def test_other_visits_records_scales_and_labels_have_unrelated_noise():
    source = SecretNoise(KEY)
    marks = source.marks(IDS, LABELLING)
    first = source.for_visit(0, marks, 1.0).normal(len(IDS))
    others = {
        "visit": source.for_visit(1, marks, 1.0),
        "scale": source.for_visit(0, marks, 1.0 + 2**-52),
        "labels": source.for_visit(0, source.marks(IDS, b"\x01" + LABELLING[1:]), 1.0),
        "records": source.for_visit(0, source.marks([f"s{i}" for i in IDS], LABELLING), 1.0),
    }
    for other in others.values():
        assert_unrelated(first, other.normal(len(IDS)))
    assert_unrelated(first[1:], first[:-1])


def test_the_noise_of_a_visit_is_standard_normal():
    source = SecretNoise()
    marks = source.marks(map(str, range(200_000)), LABELLING)
    drawn = source.for_visit(0, marks, 1.0).normal(200_000).numpy()
    assert len(np.unique(drawn)) == len(drawn)
    # Fails by chance once in a million runs.
    assert stats.kstest(drawn, "norm").statistic < stats.kstwo.ppf(1 - 1e-6, len(drawn))


def test_a_visit_gives_one_draw_for_each_record_once():
    source = SecretNoise(KEY)
    marks = source.marks(IDS[:3], LABELLING)
    for shape in ((4,), (2,), (3, 1), ()):
        with pytest.raises(ValueError, match="one draw for each of its records"):
            source.for_visit(0, marks, 1.0).normal(*shape)
    visit = source.for_visit(0, marks, 1.0)
    visit.normal(3)
    with pytest.raises(ValueError, match="second call"):
        visit.normal(3)
    assert source.for_visit(0, source.marks([], LABELLING), 1.0).normal(0).shape == (0,)
    for bad in (marks[:, :8], marks.long(), torch.zeros(3, 0, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="marks must be uint8"):
            source.for_visit(0, bad, 1.0)


def test_seeded_noise_of_a_visit_is_drawn_in_order():
    source, plain = SeededNoise(1), SeededNoise(1)
    marks = source.marks(IDS[:5], LABELLING)
    assert len(marks) == 5
    assert torch.equal(source.for_visit(0, marks, 1.0).normal(5), plain.normal(5))
