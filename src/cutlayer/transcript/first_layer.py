"""The first layer: what the received gradient looks like deep inside the non-label party."""

import torch
from torch import Tensor, nn

from cutlayer import check


def first_layer_gradient(bottom: nn.Module, features: Tensor, cut_gradient: Tensor) -> Tensor:
    r"""Gradient of each example's loss at the output of the bottom's first trainable layer.

    With the first layer's output :math:`a_j` and the rest of the bottom :math:`r`, so that
    :math:`f(X_j) = r(a_j)`,

    .. math:: \left(\frac{\partial r(a_j)}{\partial a_j}\right)^{\!\top} g_j

    The non-label party computes this in any case to train its half, and the paper attacks it
    beside the cut layer. It is a function of the received :math:`g_j` and the party's own features
    and so tells no more than they do, but an attack that looks at one number, a norm or a cosine,
    may see the label better there.

    The first trainable layer is the first module to return that has parameters of its own which
    require a gradient; its first call counts. Modes, ``grad`` fields and weights stay as they are.

    Args:
        bottom: the non-label party's half, with the weights of the step.
        features: its inputs, shape ``(examples, ...)``.
        cut_gradient: gradients as received, float, shape ``(examples, width)``.

    Returns:
        One flat row an example, in the dtype of the layer's output, shape
        ``(examples, width of the first layer)``.

    Raises:
        ValueError: rows of the two inputs differ; the bottom has no trainable layer, returns
            another shape than ``cut_gradient``, couples rows (batch normalisation in training
            mode, say), or draws random numbers (dropout in training mode): the row of an example
            would then be none of its own, or of another pass than the one that was sent.

    Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, the leak measured at the
    first hidden layer of the non-label party.

    >>> bottom = nn.Sequential(nn.Linear(1, 2, bias=False), nn.Linear(2, 1, bias=False))
    >>> bottom[1].weight.data = torch.tensor([[3.0, -2.0]])
    >>> first_layer_gradient(bottom, torch.ones(2, 1), torch.tensor([[1.0], [10.0]])).tolist()
    [[3.0, -2.0], [30.0, -20.0]]
    """
    check.matrix("cut_gradient", cut_gradient)
    check.finite("cut_gradient", cut_gradient)
    examples = cut_gradient.shape[0]
    check.shape("features rows", features, (examples, *features.shape[1:]))
    _refuse_other_passes(bottom)
    output, activation = _run_from_first_layer(bottom, features)
    check.shape("activation of bottom", activation, tuple(cut_gradient.shape))
    check.shape("output of the first layer", output, (examples, *output.shape[1:]))
    _refuse_coupled_rows(output, activation)
    sent = cut_gradient.to(activation)
    (gradient,) = torch.autograd.grad(activation, output, sent, materialize_grads=True)
    return gradient.reshape(examples, -1)


def _run_from_first_layer(bottom: nn.Module, features: Tensor) -> tuple[Tensor, Tensor]:
    """Output of the first trainable layer as a leaf of the graph, and the activation from it."""
    outputs: list[Tensor] = []

    def start_graph_here(_: nn.Module, __: object, output: object) -> object:
        if outputs or not isinstance(output, Tensor):
            return output
        outputs.append(output.detach().requires_grad_())
        return outputs[0]

    trainable = [m for m in bottom.modules() if _owns_trainable_parameter(m)]
    hooks = [module.register_forward_hook(start_graph_here) for module in trainable]
    try:
        with torch.enable_grad():
            activation = bottom(features)
    finally:
        for hook in hooks:
            hook.remove()
    if not outputs:
        raise ValueError("bottom must have a trainable layer that returns a tensor, got none.")
    if not activation.requires_grad:
        raise ValueError("bottom must use its first trainable layer's output, got another path.")
    return outputs[0], activation


def _owns_trainable_parameter(module: nn.Module) -> bool:
    """Whether a module itself, not one inside it, has something to train."""
    return any(parameter.requires_grad for parameter in module.parameters(recurse=False))


def _refuse_other_passes(bottom: nn.Module) -> None:
    """Refuse layers whose pass depends on the other rows or on chance, before any buffer moves."""
    for name, module in bottom.named_modules():
        kind = type(module).__name__
        batch_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if batch_norm and (module.training or module.running_mean is None):
            raise ValueError(
                f"bottom must not couple rows, got {kind} {name!r} that uses batch statistics; "
                "call bottom.eval(), or build it without batch normalisation."
            )
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.training and module.p > 0:
            raise ValueError(
                f"bottom must repeat the pass that was sent, got {kind} {name!r} that draws at "
                "random; call bottom.eval()."
            )


def _refuse_coupled_rows(output: Tensor, activation: Tensor) -> None:
    """Refuse a bottom whose first activation moves with another row's first-layer output."""
    first = torch.zeros_like(activation)
    first[0] = 1.0
    (alone,) = torch.autograd.grad(
        activation, output, first, retain_graph=True, materialize_grads=True
    )
    coupled = int(alone[1:].reshape(len(alone) - 1, -1).any(dim=1).sum()) if len(alone) > 1 else 0
    if coupled:
        raise ValueError(
            f"bottom must not couple rows, got an activation of row 0 that depends on {coupled} "
            "other rows."
        )
