"""A bottom half that no label ever touches: principal components of the features."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cutlayer import check

NEARLY_ALL = 0.99
"""Share of variance from which on what is carried is nearly a copy."""
_RANK_TOLERANCE = 1e-10
"""Of an eigenvalue of the correlations. Columns that depend on each other and were rounded to
float32 leave 1e-14, which adds to no rank."""


@dataclass(frozen=True)
class Carried:
    """How much of the features their components carry to whoever receives them."""

    width: int
    """Components that cross."""
    rank: int
    """Of the centred features, by their correlations: so many components tell all of them."""
    copy_width: int
    """The fewest components from which every column that varies can be computed but for 1 % of its
    variance; at most the rank."""
    columns: int
    variance: float
    """Share of the features' variance in the components, in [0, 1]."""
    recovered: int
    """Columns that can be computed from the components but for 1 % of their variance."""
    most: int
    """Components that carry 90 % of the variance."""

    @property
    def is_copy(self) -> bool:
        """Whether every column can be computed from the components but for 1 % of its variance."""
        return 0 < self.copy_width <= self.width

    @property
    def is_nearly_copy(self) -> bool:
        """Whether they can be computed but for a hundredth of their variance."""
        return self.rank > 0 and self.variance >= NEARLY_ALL


class FrozenProjection(nn.Linear):
    """A linear layer without trainable parameters, and what it gives away of the features."""

    carried: Carried


def frozen_projection(features: Tensor, width: int) -> FrozenProjection:
    r"""The first principal components of the features, scaled to variance 1, as a frozen layer.

    .. math:: f(x) = \Lambda^{-1/2} V^\top (x - \bar x)

    with the eigenvectors V and eigenvalues Lambda of the features' covariance. Where there are
    fewer components than ``width``, the rest of the output is 0.

    Does not protect: the features. From ``width`` components of features whose rank is ``width`` or
    less, x is :math:`\bar x + V \Lambda^{1/2} f(x)`.

    Args:
        features: of the training records, float ``(records, columns)``, at least 2 records.
        width: of the cut layer, at least 1.

    Returns:
        The layer; its ``carried`` says how much of the features its output tells.

    Raises:
        ValueError: the shape of ``features`` or ``width`` is out of range.

    Source: Pearson (1901), "On lines and planes of closest fit to systems of points in space".
    """
    check.matrix("features", features)
    check.finite("features", features)
    check.at_least("the number of records", features.shape[0], 2)
    check.at_least("width", width, 1)
    from sklearn.decomposition import PCA  # here: it takes long to load, and few runs freeze

    components = min(width, *features.shape)
    values = features.double().numpy()
    with np.errstate(invalid="ignore"):  # of features that do not differ it divides 0 by 0
        pca = PCA(svd_solver="full").fit(values)
    deviation = torch.from_numpy(pca.explained_variance_[:components]).sqrt()
    # A component without variance carries nothing; dividing by it would blow rounding errors up.
    used = deviation > 1e-9 * deviation.max()
    scale = torch.where(used, 1.0 / deviation.clamp_min(torch.finfo(torch.float64).tiny), 0.0)
    weight = torch.from_numpy(pca.components_[:components]) * scale[:, None]
    layer = FrozenProjection(features.shape[1], width, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[:components] = weight.float()
        layer.bias[:components] = -(weight @ torch.from_numpy(pca.mean_)).float()
    layer.carried = _carried(values, width, pca.explained_variance_, pca.components_)
    return layer.requires_grad_(requires_grad=False)


def _carried(
    values: NDArray[np.float64],
    width: int,
    variances: NDArray[np.float64],
    directions: NDArray[np.float64],
) -> Carried:
    """What the first components carry, from the variance along all of them."""
    deviation = values.std(axis=0)
    varying = deviation > 0
    rank = 0
    if varying.any():
        scaled = (values[:, varying] - values[:, varying].mean(axis=0)) / deviation[varying]
        eigenvalues = np.linalg.eigvalsh(scaled.T @ scaled)
        rank = int((eigenvalues > _RANK_TOLERANCE * eigenvalues.max()).sum())
    shares = np.cumsum(variances) / max(variances.sum(), np.finfo(np.float64).tiny)
    carried = min(width, len(shares))
    of_column = variances[:, None] * directions**2
    whole = of_column.sum(axis=0)
    reached = np.cumsum(of_column, axis=0) >= NEARLY_ALL * whole  # by components and columns
    full = int((~reached[:, varying].all(axis=1)).sum()) + 1
    return Carried(
        width=width,
        rank=rank,
        copy_width=min(rank, full),
        columns=values.shape[1],
        variance=float(shares[carried - 1]) if rank else 0.0,
        recovered=int((varying & reached[carried - 1]).sum()),
        most=int(np.searchsorted(shares, 0.9) + 1),
    )
