"""The likelihood-ratio attack: the best there is, if gradients are what Marvell's model says."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.class_model import ClassModel
from cutlayer.attacks.scale import exact


def likelihood_ratio(gradient: Tensor, class_model: ClassModel) -> Tensor:
    r"""Score each example by how much likelier its gradient is from a positive.

    .. math:: s_j = \ln \frac{p_1(g_j)}{p_0(g_j)}, \qquad
              \ln p_y(g) = -\frac{(a - \mu_y^\Delta)^2}{2 x_y} - \frac{r^2}{2 y_y}
              - \tfrac12 \ln x_y - \tfrac{d - 1}{2} \ln y_y + \text{const}

    with the coordinate a of g along the gap, the length r of the rest, and the variances x along
    and y across of :class:`~cutlayer.attacks.class_model.ClassModel`. By Neyman and Pearson no
    score of one gradient has a higher AUC under this model, and as noise is drawn afresh, the sum
    over the releases of a record is best for all of them. The statistics are not known to anybody
    but the label party: an upper reference, as far as they are known well: an audit takes them from
    one half of a batch's rows and tries them on the other, which tells less in small batches.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        class_model: distribution of received gradients of each class.

    Returns:
        Log likelihood ratios (no unit), float64, shape ``(examples,)``; above 0 where a positive
        is likelier.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite, or the
            model has another width.

    Source: Neyman and Pearson (1933); the model of `Li et al. (2022)
    <https://arxiv.org/abs/2102.08504>`_, section 4.2.

    >>> model = ClassModel(torch.tensor([1.0]), torch.tensor([-1.0]), 1.0, 1.0, 1.0, 1.0)
    >>> likelihood_ratio(torch.tensor([[0.25], [0.0]]), model).tolist()  # 2 g for N(+-1, 1)
    [0.5, 0.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    check.shape("mean_pos of class_model", class_model.mean_pos, (gradient.shape[1],))
    positive, negative = (
        exact(mean).to(gradient.device) for mean in (class_model.mean_pos, class_model.mean_neg)
    )
    gap = positive - negative
    unit = torch.linalg.vector_norm(gap)
    direction = gap / unit
    score = torch.zeros_like(exact(gradient)[:, 0])
    for sign, mean, along, across in (
        (1.0, positive, class_model.along_pos, class_model.across_pos),
        (-1.0, negative, class_model.along_neg, class_model.across_neg),
    ):
        offset = (exact(gradient) - mean) / unit
        coordinate = offset @ direction
        rest = (offset - coordinate[:, None] * direction).square().sum(dim=1)
        score += sign * _log_density(coordinate.square(), along / unit**2, count=1)
        score += sign * _log_density(rest, across / unit**2, count=gradient.shape[1] - 1)
    return score


def _log_density(squared: Tensor, variance: Tensor, *, count: int) -> Tensor:
    """Log density, up to a constant, of ``count`` normals of mean 0 whose squares sum so."""
    if count == 0:  # width 1 has nothing across the gap
        return torch.zeros_like(squared)
    return -squared / (2 * variance) - count / 2 * variance.log()
