"""Constant time: stand-ins that let an audit take the same time whatever labels a message has.

An audit that runs before a reply leaves is part of the reply's time. Where a message holds one
class only it has no AUC, and without a usable positive it has no hint; an audit that then did
less would tell the peer so. It computes with a stand-in instead, and throws the result away.
"""

import torch
from torch import Tensor

from cutlayer.audits.hints import Hint
from cutlayer.transcript.release import Release


def stand_in_hint(release: Release) -> Hint:
    """A hint that gives nothing away, of the shape of a true one.

    Args:
        release: at least one row; nothing else is read of it but shapes and the first record.

    Returns:
        The first record, with ones for a gradient: never zero, which attacks would not take.
    """
    gradient = torch.ones_like(release.gradient[0])
    return Hint(int(release.records[0]), gradient)


def both_classes(labels: Tensor) -> tuple[Tensor, bool]:
    """Labels that have an AUC, by the same operations whether the given ones have one or not.

    Args:
        labels: 0 or 1, at least two, shape ``(examples,)``.

    Returns:
        The labels, and whether they hold both classes; where they do not, the first is flipped.

    >>> [both_classes(torch.tensor(labels))[0].tolist() for labels in ([0, 0, 1], [1, 1, 1])]
    [[0, 0, 1], [0, 1, 1]]
    """
    defined = 0 < int((labels == 1).sum()) < len(labels)
    compared = labels.clone()
    compared[:1] = (compared[:1] - int(not defined)).abs()
    return compared, defined
