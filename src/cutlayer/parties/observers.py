"""Observers: what else may look at a step.

A release is shown once it is on record and before it is sent: an observer that raises keeps it
from leaving, and the time that it takes is part of the time of the reply. A copy that is sent after
an interruption is shown to keepers only.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from cutlayer.transcript.release import Release


class ReleaseObserver(Protocol):
    """Looks at each release from inside the label party."""

    def on_release(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """See one release.

        Args:
            release: what the non-label party sees of this step.
            labels: the training labels of its rows, ``(examples,)``: private to the label party.
            clean_gradient: the gradient before protection: private to the label party.
        """


@runtime_checkable
class ReleaseKeeper(ReleaseObserver, Protocol):
    """An observer that writes releases down, and may have been killed before it had."""

    def on_copy(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """See a release that is sent again with the same bytes; arguments as ``on_release``."""

    def on_checkpoint(self) -> None:
        """The run can be gone on with from here: earlier releases are never sent again."""


HalfObserver = Callable[[int, nn.Module], None]
"""Sees, inside the non-label party, each step's number and the half as it made that step's
activation, before its update."""


class ProgressObserver(Protocol):
    """Is told how far a training is."""

    def on_progress(self, step: int, steps: int, rows: int) -> None:
        """``step`` of ``steps`` is done, with ``rows`` records.

        At the label party its gradient was sent; at the non-label party it has come back and been
        learned from.
        """
