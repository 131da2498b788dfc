"""The small network that learning attacks fit: a linear part plus one hidden layer."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

_HIDDEN = 32
_STEPS = 300
_BATCH = 4096
_LEARNING_RATE = 0.01
_WEIGHT_DECAY = 1e-3
_HELD_BACK = 5
_PATIENCE = 60


def learned_scores(
    features: Tensor, known: Tensor, labels: Tensor, *, generator: torch.Generator
) -> Tensor:
    r"""Logits of a small network that was fitted to the records with known labels.

    .. math:: s = w^\top z + b + v^\top \tanh(U z + c)

    with v = 0 at the start, so that training begins at a logistic regression; Adam with decoupled
    weight decay. Every fifth known record is held back, and the weights that served these best
    are kept, so that a network that learns by heart does no harm.

    Args:
        features: standardised columns of all records, ``(records, columns)``.
        known: which records may be learned from, bool ``(records,)``.
        labels: 0 or 1 where ``known``, ``(records,)``.
        generator: draws start, batches and what is held back.

    Returns:
        Logits, float64, ``(records,)``; zeros where the known records are of one class, or too
        few to hold any of both classes back.
    """
    inputs = features.float()
    rows = known.nonzero()[:, 0].cpu()
    rows = rows[torch.randperm(len(rows), generator=generator)].to(features.device)
    held, used = rows[::_HELD_BACK], rows[torch.arange(len(rows)) % _HELD_BACK > 0]
    targets = labels.to(inputs)
    if any(len(part) == 0 or _one_class(targets[part]) for part in (held, used)):
        return torch.zeros_like(features[:, 0], dtype=torch.float64)
    weights = _start(inputs, generator)
    optimiser = torch.optim.AdamW(weights, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    best, best_step, kept = float("inf"), 0, [w.detach().clone() for w in weights]
    for step in range(_STEPS):
        with torch.no_grad():
            judged = _logits(weights, inputs[held])
            loss = float(binary_cross_entropy_with_logits(judged, targets[held]))
        if loss < best:
            best, best_step, kept = loss, step, [w.detach().clone() for w in weights]
        elif step - best_step > _PATIENCE:
            break
        batch = used
        if len(used) > _BATCH:
            chosen = torch.randint(len(used), (_BATCH,), generator=generator)
            batch = used[chosen.to(used.device)]
        optimiser.zero_grad()
        with torch.enable_grad():
            fit = binary_cross_entropy_with_logits(_logits(weights, inputs[batch]), targets[batch])
        fit.backward()
        optimiser.step()
    return _logits(kept, inputs).double()


def _one_class(labels: Tensor) -> bool:
    """Whether all labels are the same."""
    return bool((labels == labels[0]).all())


def _start(inputs: Tensor, generator: torch.Generator) -> list[Tensor]:
    """Linear part and output weights at zero, hidden layer drawn."""
    columns = inputs.shape[1]
    hidden = torch.randn(columns, _HIDDEN, generator=generator) / max(columns, 1) ** 0.5
    shapes = ((columns,), (1,), (_HIDDEN,), (_HIDDEN,))
    linear, bias, out, shift = (torch.zeros(shape) for shape in shapes)
    return [w.to(inputs).requires_grad_() for w in (linear, bias, out, shift, hidden)]


def _logits(weights: list[Tensor], inputs: Tensor) -> Tensor:
    """The network's output for each row."""
    linear, bias, out, shift, hidden = weights
    return inputs @ linear + bias + torch.tanh(inputs @ hidden + shift) @ out
