import math

import numpy as np
import pytest
from scipy.stats import kstest

from cutlayer.data.shared_draws import normals, permutation, uniforms

MASK = 2**128 - 1


def pcg64_words(count: int, entropy: tuple[int, ...]) -> list[int]:
    """PCG64 in whole numbers, after O'Neill (2014), HMC-CS-2014-0905, section 6.3 (XSL-RR)."""
    high, low, inc_high, inc_low = (
        int(w) for w in np.random.SeedSequence(entropy).generate_state(4, np.uint64)
    )
    increment = ((inc_high << 64 | inc_low) << 1 | 1) & MASK
    multiplier = 0x2360ED051FC65DA44385DF649FCCF645
    state = (increment + (high << 64 | low)) & MASK
    state = (state * multiplier + increment) & MASK
    words = []
    for _ in range(count):
        state = (state * multiplier + increment) & MASK
        folded, turn = (state >> 64) ^ (state & (2**64 - 1)), state >> 122
        words.append((folded >> turn | folded << (64 - turn)) & (2**64 - 1))
    return words


@pytest.mark.parametrize("entropy", [(0,), (0, 1), (7, 3, 2**40)])
def test_permutation_is_the_order_of_the_generators_words(entropy):
    words = pcg64_words(200, entropy)
    assert permutation(200, *entropy).tolist() == sorted(range(200), key=lambda i: words[i])


def test_uniforms_are_the_generators_upper_bits():
    assert uniforms(50, 4, 2).tolist() == [w // 2**11 / 2**53 for w in pcg64_words(50, (4, 2))]


def test_all_orders_are_equally_likely():
    orders = [tuple(permutation(3, seed, 0).tolist()) for seed in range(3000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    assert max(abs(c - 500) for c in counts) < 5 * math.sqrt(3000 / 6 * 5 / 6)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_counts_are_kept(count):
    assert permutation(count, 0).shape == uniforms(count, 0).shape == normals(count, 0).shape
    assert permutation(count, 0).shape == (count,)


def test_normals_are_normal():
    assert kstest(normals(20_000, 1, 2), "norm").pvalue > 1e-6
