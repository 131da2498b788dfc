"""Addresses: HOST:PORT, and which hosts stay on this machine."""

import ipaddress
from dataclasses import dataclass

from cutlayer.errors import ConfigurationError


@dataclass(frozen=True)
class Address:
    """Where the label party listens, and the non-label party connects to."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``HOST:PORT``; an IPv6 host stands in brackets.

        Raises:
            ConfigurationError: it is something else.
        """
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ConfigurationError(f"address must be HOST:PORT, got {text!r}.")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether it can only be reached from this machine."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def require_loopback(address: Address) -> None:
    """Refuse to speak plain text to another machine.

    Raises:
        ConfigurationError: the address is not on loopback.
    """
    if not address.is_loopback:
        raise ConfigurationError(
            f"address: {address} is not a loopback address, and insecure_loopback only joins "
            "processes of one machine. Leave it out, and use `cutlayer init` and `cutlayer pair`."
        )
