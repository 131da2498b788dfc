"""A guarded observer: an audit that fails ends itself, and not the run."""

from collections.abc import Callable

from torch import Tensor

from cutlayer.errors import LeakStopError, StorageError
from cutlayer.parties.handshake import Tell
from cutlayer.parties.observers import ReleaseObserver
from cutlayer.transcript.release import Release


class GuardedObserver:
    """Keeps an error of an audit from the peer.

    An audit reads labels before a reply leaves. Were its errors to end the session, then a message
    that makes it fail under one label and not under the other would tell the peer that label. So
    it is left out from then on, and the operator alone is told.

    Two errors pass: ``stop_above``, which the operator asked for and which voids the guarantee, and
    a disk that is full.

    Args:
        observer: the audit.
        name: what it is, for the notice.
        tell: takes the notice.
        on_stop: given the error of ``stop_above`` before it ends the session.
    """

    def __init__(
        self,
        observer: ReleaseObserver,
        name: str,
        tell: Tell,
        *,
        on_stop: Callable[[LeakStopError], None] = lambda _: None,
    ) -> None:
        self._observer, self._name, self._tell = observer, name, tell
        self._on_stop = on_stop
        self.has_failed = False

    def on_release(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Show it a release, unless an earlier one made it fail."""
        if self.has_failed:
            return
        try:
            self._observer.on_release(release, labels, clean_gradient)
        except LeakStopError as stop:
            self._on_stop(stop)
            raise
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, the peer must not notice)
            self.has_failed = True
            self._tell(
                f"label party: {self._name} failed at step {release.step} "
                f"({type(error).__name__}: {error}). The run continues without it, and nothing of "
                "it is reported. The messages are protected as before."
            )
