"""The bypass check: a tensor of the non-label party that reaches the logit beside the cut."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def bypasses(
    logit_of: Callable[[Mapping[str, Tensor]], Tensor],
    from_non_label_party: Mapping[str, Tensor],
    protected: str,
) -> tuple[str, ...]:
    r"""Tensors of the non-label party through which a gradient returns without protection.

    A protection of the cut hides nothing if the logit depends on the other party in a second way:
    the gradient :math:`\partial L / \partial w_j` of a wide logit that is added beside the top is
    (probability - label) itself, and :func:`~cutlayer.attacks.direct_sign.direct_sign` reads the
    label off its sign. The original Wide & Deep is built so.

    The check runs the label party's half once and follows the graph. It is strict: a tensor counts
    if it is connected with the logit at all, even if its derivative is zero for this batch.

    Args:
        logit_of: the label party's half: from these tensors, by name, to logits of any shape.
        from_non_label_party: all that crosses from the non-label party in a step, float, by name.
        protected: the name of the cut, whose gradient is perturbed.

    Returns:
        Names of tensors other than the cut that the logit depends on, in the order given; empty
        where every path is protected.

    Raises:
        ValueError: ``protected`` is none of the names, or the logit does not depend on it.

    Source: Wide & Deep of `Cheng et al. (2016) <https://arxiv.org/abs/1606.07792>`_; the sign at a
    logit: `Fu et al. (2022)
    <https://www.usenix.org/conference/usenixsecurity22/presentation/fu-chong>`_.

    >>> sent = {"deep": torch.ones(4, 3), "wide": torch.ones(4, 1)}
    >>> bypasses(lambda got: got["deep"].sum(dim=1) + got["wide"][:, 0], sent, protected="deep")
    ('wide',)
    """
    if protected not in from_non_label_party:
        raise ValueError(
            f"protected must be one of {', '.join(from_non_label_party)}, got {protected!r}."
        )
    leaves = {
        name: tensor.detach().clone().requires_grad_()
        for name, tensor in from_non_label_party.items()
    }
    with torch.enable_grad():
        logit = logit_of(leaves)
    slopes: dict[str, Tensor | None] = dict.fromkeys(leaves)
    if logit.requires_grad:
        found = torch.autograd.grad(logit.sum(), list(leaves.values()), allow_unused=True)
        slopes = dict(zip(leaves, found, strict=True))
    if slopes[protected] is None:
        raise ValueError(f"The logit must depend on {protected!r}, got one that does not.")
    return tuple(name for name, slope in slopes.items() if slope is not None and name != protected)
