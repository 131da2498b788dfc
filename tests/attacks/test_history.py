"""What histories are made of: means by record, and a fixed projection."""

import pytest
import torch

from cutlayer.attacks.history import Projection, RecordMeans, root_mean_square_norm


def test_means_by_hand():
    means = RecordMeans(3)
    assert means.means().shape == (3, 0)
    means.add(torch.tensor([2, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    means.add(torch.tensor([0]), torch.tensor([[5.0, 0.0]]))
    found = means.means()
    assert found[[0, 2]].tolist() == [[4.0, 2.0], [1.0, 2.0]]
    assert bool(found[1].isnan().all())
    assert means.means(torch.tensor([2])).tolist() == [[1.0, 2.0]]
    assert means.visits.tolist() == [2, 0, 1]


def test_columns_must_stay():
    means = RecordMeans(3)
    means.add(torch.tensor([0]), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"values must have shape \(1, 2\)"):
        means.add(torch.tensor([0]), torch.ones(1, 3))


def test_narrow_rows_are_kept_and_wide_ones_keep_their_angles():
    project = Projection(32, seed=0)
    narrow = torch.randn(5, 32, generator=torch.Generator().manual_seed(0)).double()
    assert project(narrow) is narrow
    wide = torch.randn(400, 500, generator=torch.Generator().manual_seed(1)).double()
    short = project(wide)
    assert short.shape == (400, 32)
    assert torch.equal(short, project(wide))
    # A random projection to 32 of 500 coordinates keeps 32 / 500 of each squared length, with a
    # relative deviation of about sqrt(2 / 32) a row; five of them for the mean of 400 rows.
    kept = float(short.square().sum() / wide.square().sum())
    assert abs(kept / (32 / 500) - 1) < 5 * (2 / 32) ** 0.5 / 400**0.5


def test_the_level_of_a_batch():
    assert (
        float(root_mean_square_norm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]).double())) == 12.5**0.5
    )
    assert float(root_mean_square_norm(torch.zeros(2, 2))) == 1.0
