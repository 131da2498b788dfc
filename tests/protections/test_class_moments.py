"""Moments of a class against numpy, merged in parts, and over two real processes."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from cutlayer.protections.class_moments import ClassMoments, class_moments


def batch(rows: int, width: int, *, seed: int = 0, mean: float = 0.0):
    source = np.random.default_rng(seed)
    gradient = mean + source.normal(size=(rows, width))
    labels = (np.arange(rows) % 3 == 0).astype(int)
    return gradient, labels


def of(gradient: np.ndarray, labels: np.ndarray) -> tuple[ClassMoments, ClassMoments]:
    return class_moments(torch.from_numpy(gradient), torch.from_numpy(labels))


def assert_same(one: ClassMoments, other: ClassMoments) -> None:
    assert one.weight == pytest.approx(other.weight, rel=1e-12)
    assert one.weight_squared == pytest.approx(other.weight_squared, rel=1e-12)
    assert one.scatter == pytest.approx(other.scatter, rel=1e-10)
    torch.testing.assert_close(one.mean, other.mean, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("rows", "width"), [(2, 1), (50, 7), (3000, 40), (3, 40_000)])
def test_equal_numpy(rows, width):
    gradient, labels = batch(rows, width)
    for moments, label in zip(of(gradient, labels), (1, 0), strict=True):
        own = gradient[labels == label]
        assert moments.weight == moments.weight_squared == len(own)
        np.testing.assert_allclose(moments.mean.numpy(), own.mean(axis=0), atol=1e-13)
        scatter = ((own - own.mean(axis=0)) ** 2).sum()
        assert moments.scatter == pytest.approx(scatter, rel=1e-11, abs=1e-20)
        if len(own) > 1:
            assert moments.variance == pytest.approx(own.var(axis=0, ddof=1).mean(), rel=1e-11)
        else:
            assert moments.variance is None


def test_a_spread_far_below_its_mean_keeps_its_digits():
    # One pass over sums of squares would lose all 16 digits here.
    gradient, labels = batch(90, 5)
    one, _ = of(1e-6 * gradient + 1e3, labels)
    assert one.variance == pytest.approx(1e-12 * gradient[labels == 1].var(axis=0, ddof=1).mean(),
                                         rel=1e-3)  # fmt: skip


def test_float32_that_underflows_when_squared():
    gradient, labels = batch(30, 4)
    tiny = torch.from_numpy(1e-23 * gradient).float()
    positives, _ = class_moments(tiny, torch.from_numpy(labels))
    own = gradient[labels == 1]
    assert positives.variance == pytest.approx(1e-46 * own.var(axis=0, ddof=1).mean(), rel=1e-5)


def test_a_class_without_rows_has_no_weight():
    positives, negatives = class_moments(torch.ones(4, 2), torch.zeros(4))
    assert positives.weight == 0
    assert positives.variance is None
    assert negatives.weight == 4
    assert torch.equal(positives.merged(negatives).mean, negatives.mean)
    assert torch.equal(negatives.merged(positives).mean, negatives.mean)
    assert positives.merged(positives).weight == 0


@pytest.mark.parametrize("parts", [2, 5])
def test_merged_parts_equal_the_whole(parts):
    gradient, labels = batch(101, 6, mean=3.0)
    whole = of(gradient, labels)
    merged = None
    for rows in np.array_split(np.arange(101), parts):
        part = of(gradient[rows], labels[rows])
        merged = part if merged is None else tuple(map(ClassMoments.merged, merged, part))
    for one, other in zip(merged, whole, strict=True):
        assert_same(one, other)


def test_weighted_moments_equal_their_definition():
    # Two sets of rows, the older with weight 0.98, as after one batch.
    old, new = np.random.default_rng(1).normal(size=(2, 20, 3))
    merged = moments_of(old).scaled(0.98).merged(moments_of(new))
    weights = np.concatenate([np.full(20, 0.98), np.full(20, 1.0)])
    rows = np.concatenate([old, new])
    mean = (weights[:, None] * rows).sum(axis=0) / weights.sum()
    scatter = (weights * ((rows - mean) ** 2).sum(axis=1)).sum()
    assert_same(
        merged,
        ClassMoments(weights.sum(), (weights**2).sum(), torch.from_numpy(mean), scatter),
    )


def moments_of(rows: np.ndarray) -> ClassMoments:
    """Moments of rows that are all positive."""
    return class_moments(torch.from_numpy(rows), torch.ones(len(rows)))[0]


def test_weighted_variance_and_squared_mean_are_unbiased():
    source = np.random.default_rng(2)
    variances, excess = [], []
    for _ in range(4000):
        old, new = source.normal(size=(5, 2)), source.normal(size=(3, 2))
        merged = moments_of(old).scaled(0.5).merged(moments_of(new))
        variances.append(merged.variance)
        excess.append(float(merged.mean.dot(merged.mean)) - merged.mean_uncertainty)
    for values, expected in ((variances, 1.0), (excess, 0.0)):
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) <= 5 * error


TWO_RANKS = """
    import copy
    import pickle
    import sys
    import torch
    from torch import distributed
    from cutlayer.errors import ProtectionError
    from cutlayer.protections.class_moments import class_moments, gathered
    from cutlayer.protections.marvell import Marvell
    from cutlayer.rng import SeededNoise

    torch.set_num_threads(1)
    rank, store = int(sys.argv[1]), sys.argv[2]
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    source = torch.Generator().manual_seed(0)
    gradient = torch.randn(100, 4, generator=source, dtype=torch.float64)
    labels = (torch.arange(100) % 5 == 0).long()
    gradient[:, 0] += 3 * labels
    whole = class_moments(gradient, labels)
    # All positives are on rank 0; the other has a batch of one class.
    mine = (labels == 1) if rank == 0 else (labels == 0)
    joined = gathered(class_moments(gradient[mine], labels[mine]))
    for one, other in zip(joined, whole, strict=True):
        assert one.weight == other.weight
        torch.testing.assert_close(one.mean, other.mean)
        assert abs(one.scatter - other.scatter) < 1e-9
    protection = Marvell(s=2.0, statistics="batch")
    protection.share_statistics()
    own = gradient[mine] * (100 / int(mine.sum()))  # each rank's loss is the mean over its rows
    sent = protection.perturb(own, labels[mine], noise=SeededNoise(rank))
    alone = Marvell(s=2.0, statistics="batch")
    alone.perturb(gradient, labels, noise=SeededNoise(9))
    bounds = protection.guarantee(1).leak_auc, alone.guarantee(1).leak_auc
    assert abs(bounds[0] - bounds[1]) < 1e-12, bounds
    assert bool((sent != own).any(dim=1).all())
    # A copy finds the default group again; another group is lost, and the copy says so.
    bounds = copy.deepcopy(protection).guarantee(1).leak_auc, protection.guarantee(1).leak_auc
    assert bounds[0] == bounds[1]
    copied = pickle.loads(pickle.dumps(protection))
    assert torch.equal(copied.perturb(own, labels[mine], noise=SeededNoise(rank)), sent)
    protection.share_statistics(distributed.new_group([0, 1]))
    copied = copy.deepcopy(protection)
    try:
        copied.perturb(own, labels[mine], noise=SeededNoise(rank))
    except ProtectionError as error:
        assert "share_statistics()" in str(error)
    else:
        raise AssertionError
    copied.share_statistics()
    assert torch.equal(copied.perturb(own, labels[mine], noise=SeededNoise(rank)), sent)
    distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_see_one_batch(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(TWO_RANKS)]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE)
        for rank in (0, 1)
    ]
    for rank in ranks:
        _, problems = rank.communicate(timeout=120)
        assert rank.returncode == 0, problems.decode()
