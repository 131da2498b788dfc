"""The endpoint: where a party meets its one peer, and meets it again after each break."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from cutlayer.protocol.transport import Transport


class Endpoint(ABC):
    """Listens for the peer or connects to it. The label party listens.

    An endpoint lives as long as the run. Each :meth:`meet` gives a new transport: the first
    starts the session, each further one goes on with it after a break.
    """

    @abstractmethod
    def meet(self, *, deadline: float) -> Transport:
        """Wait for the peer.

        A listener returns the newest authenticated connection that was not returned before; an
        older one is over from that moment, since a peer that connects anew has given it up. A
        connector ends the transport that it gave before, and tries ever more rarely until the
        deadline.

        Args:
            deadline: seconds until the peer must have been met.

        Raises:
            DeadlineError: it did not appear in time.
            PeerRefusedError: someone answered, and the identities do not fit, again and again.
        """

    @abstractmethod
    def describe(self) -> str:
        """What this endpoint does and how it is secured, for messages and logs."""

    @abstractmethod
    def close(self) -> None:
        """Stop meeting, and let go of the transport that is still open; safe to call again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
