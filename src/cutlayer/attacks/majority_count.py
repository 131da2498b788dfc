"""The counting attack: the rare class is the side with fewer partners."""

from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import row_directions

_BLOCK_ROWS = 1024
"""Cosines are held in blocks of this many rows and columns: 8 MB in float64."""


def majority_count_attack(gradient: Tensor) -> Tensor:
    r"""Score each example by how few others of its batch point the same way.

    .. math:: s_j = -\frac{1}{B - 1} \sum_{i \ne j}
              \left( [\cos(g_i, g_j) > 0] + \tfrac12 [\cos(g_i, g_j) = 0] \right)

    The direction attack without a hint: the two classes point to opposite sides, and the side
    with fewer rows is the rare class, taken to be the positives. Side knowledge: none, unless
    one counts that positives are the minority; where they are not, the AUC is turned round.

    The cosine matrix is symmetric, so each pair is looked at once, block by block: 8192 rows of
    width 128 take half of the 8.6 billion multiplications and some 30 MB beside the batch.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Minus the share of partners, in [-1, 0], float64, shape ``(examples,)``; higher means
        "more likely positive". A zero gradient sides with nobody and scores -1/2, as does the
        only row of a batch of one.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, the remark that the
    class of a direction can be guessed by counting.

    >>> import torch
    >>> majority_count_attack(torch.tensor([[1.0], [2.0], [-1.0]])).tolist()
    [-0.5, -0.5, -0.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    directions = row_directions(gradient)
    examples = len(directions)
    if examples == 1:
        return directions.new_full((1,), -0.5)
    # A sum of signs is (partners) - (opponents), and rows at a right angle count for neither.
    balance = directions.new_zeros(examples)
    for top in range(0, examples, _BLOCK_ROWS):
        rows = slice(top, min(top + _BLOCK_ROWS, examples))
        for left in range(top, examples, _BLOCK_ROWS):
            columns = slice(left, min(left + _BLOCK_ROWS, examples))
            side = (directions[rows] @ directions[columns].T).sign_()
            balance[rows] += side.sum(dim=1)
            if left > top:
                balance[columns] += side.sum(dim=0)
    balance -= directions.any(dim=1).double()  # a row is no partner of its own
    return -(balance / (examples - 1) + 1) / 2
