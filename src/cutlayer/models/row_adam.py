"""Adam that touches only the rows of a table that the batch held."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override


class RowAdam(torch.optim.Adam):
    r"""Adam for dense parameters, and the same update row by row where a gradient is sparse.

    For the rows of a table that are in the batch, with their gradient g and the weight decay
    :math:`\lambda`,

    .. math:: m \leftarrow \beta_1 m + (1-\beta_1)(g + \lambda w), \quad
              v \leftarrow \beta_2 v + (1-\beta_2)(g + \lambda w)^2, \quad
              w \leftarrow w - \eta\, \frac{m / (1-\beta_1^t)}{\sqrt{v / (1-\beta_2^t)} + \epsilon}

    where t counts the table's steps. Rows that are not in the batch keep weight and moments, and
    do not decay; a dense Adam would move them all. A step then costs what the batch holds, not
    what the vocabulary holds.

    Arguments are those of ``torch.optim.Adam``. ``amsgrad`` and ``maximize`` are not for tables.

    Source: Kingma and Ba (2015); the lazy rows as in ``torch.optim.SparseAdam``, which has no
    weight decay and refuses dense gradients.
    """

    @override
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None and table.grad.is_sparse:
                    self._update_rows(table, table.grad.coalesce(), group)
                    table.grad = None  # the rest is dense, and Adam's own
        return super().step(closure)

    def _update_rows(self, table: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """One table."""
        state = self.state[table]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(table)
            state["exp_avg_sq"] = torch.zeros_like(table)
        state["step"] += 1
        step, (beta1, beta2) = float(state["step"]), group["betas"]
        rows = gradient.indices()[0]
        slope = gradient.values() + group["weight_decay"] * table[rows]
        mean = state["exp_avg"][rows].lerp_(slope, 1 - beta1)
        square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
        scale = (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
        table.index_add_(0, rows, mean / scale, alpha=-group["lr"] / (1 - beta1**step))
