"""A summed release: what a party sees that gets parameter gradients and no row of its own."""

from dataclasses import dataclass

from torch import Tensor

from cutlayer import check


@dataclass(frozen=True, eq=False)
class SummedRelease:
    r"""One step of which the sum over the rows is known, but no row.

    So it is where messages are encrypted or summed by somebody else: to train its bottom, a party
    needs only the sum. The last layer of the bottom is linear, :math:`h_j = W a_j`, so its
    gradient is

    .. math:: \nabla_W = \sum_j g_j a_j^\top .

    A bias is a column of ones in :math:`a`, and its gradient the matching column of
    :math:`\nabla_W`.

    Raises:
        ValueError: the shapes do not fit together, or a value is not finite.
    """

    records: Tensor
    """Positions of the batch's records, int64, ``(examples,)``."""
    layer_input: Tensor
    """Inputs a of the bottom's last layer, the party's own, float ``(examples, fan_in)``."""
    weight_gradient: Tensor
    """Gradient of that layer's weight summed over the batch, float ``(width, fan_in)``."""

    def __post_init__(self) -> None:
        check.matrix("layer_input", self.layer_input)
        check.matrix("weight_gradient", self.weight_gradient)
        check.finite("layer_input", self.layer_input)
        check.finite("weight_gradient", self.weight_gradient)
        check.shape("records", self.records, (self.layer_input.shape[0],))
        width = self.weight_gradient.shape[0]
        check.shape("weight_gradient", self.weight_gradient, (width, self.layer_input.shape[1]))

    @property
    def examples(self) -> int:
        """Rows of the batch."""
        return self.layer_input.shape[0]
