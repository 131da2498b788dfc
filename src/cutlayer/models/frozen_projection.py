"""A bottom half that no label ever touches: principal components of the features."""

import torch
from torch import Tensor, nn

from cutlayer import check


def frozen_projection(features: Tensor, width: int) -> nn.Linear:
    r"""The first principal components of the features, scaled to variance 1, as a frozen layer.

    .. math:: f(x) = \Lambda^{-1/2} V^\top (x - \bar x)

    with the eigenvectors V and eigenvalues Lambda of the features' covariance. Where there are
    fewer components than ``width``, the rest of the output is 0.

    Args:
        features: of the training records, float ``(records, columns)``, at least 2 records.
        width: of the cut layer, at least 1.

    Returns:
        A linear layer without trainable parameters.

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
    pca = PCA(components, svd_solver="full").fit(features.double().numpy())
    deviation = torch.from_numpy(pca.explained_variance_).sqrt()
    # A component without variance carries nothing; dividing by it would blow rounding errors up.
    used = deviation > 1e-9 * deviation.max()
    scale = torch.where(used, 1.0 / deviation.clamp_min(torch.finfo(torch.float64).tiny), 0.0)
    weight = torch.from_numpy(pca.components_) * scale[:, None]
    layer = nn.Linear(features.shape[1], width, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[:components] = weight.float()
        layer.bias[:components] = -(weight @ torch.from_numpy(pca.mean_)).float()
    return layer.requires_grad_(requires_grad=False)
