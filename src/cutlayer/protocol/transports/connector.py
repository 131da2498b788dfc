"""The connecting end, whatever it speaks: the non-label party meets its peer."""

from abc import abstractmethod
from typing import Generic, TypeVar

from typing_extensions import override

from cutlayer.protocol.address import Address
from cutlayer.protocol.endpoint import Endpoint
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.network_transport import NetworkTransport
from cutlayer.protocol.transports.reconnect import Attempts

Connected = TypeVar("Connected", bound=NetworkTransport)


class Connector(Endpoint, Generic[Connected]):
    """Connects anew whenever it is asked to, which ends the connection before."""

    def __init__(self, address: Address, security: str) -> None:
        """Prepare to connect.

        Args:
            address: of the label party.
            security: how the connection is protected, in words.
        """
        self._address, self._security = address, security
        self._attempts = Attempts(self._attempt)
        self._current: Connected | None = None

    @override
    def meet(self, *, deadline: float) -> Connected:
        clock = Clock(deadline, f"the label party to listen on {self._address}")
        if self._current is not None:
            self._current.break_off("This party has connected anew, which ends this connection.")
        self._current = self._attempts.until_met(clock)
        return self._current

    @override
    def describe(self) -> str:
        return f"{self._security}, connecting to {self._address}"

    @override
    def close(self) -> None:
        if self._current is not None:
            self._current.close()

    @abstractmethod
    def _attempt(self, seconds: float) -> Connected:
        """Connect, and wait until both sides have accepted each other.

        Raises:
            ConnectionLostError: nobody was there in time, or it went away.
            PeerRefusedError: somebody was, and the identities do not fit.
            ProtocolError: somebody was, who speaks something else.
        """
