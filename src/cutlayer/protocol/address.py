"""Addresses: HOST:PORT, and which hosts stay on this machine."""

import ipaddress
import re
from dataclasses import dataclass

from cutlayer.errors import ConfigurationError

MOST_PORT = 65535
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_RULE = "an IPv6 host stands in brackets, as in [::1]:7700"


@dataclass(frozen=True)
class Address:
    """Where the label party listens, and the non-label party connects to."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, key: str = "address") -> "Address":
        """Read ``HOST:PORT``; an IPv6 host stands in brackets.

        Args:
            text: as written.
            key: what was given as, for the error.

        Raises:
            ConfigurationError: it is something else; the message says what, the rule and the fix.
        """
        found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]+)):([0-9]{1,5})", text, re.ASCII)
        if found is None or int(found[3]) > MOST_PORT:
            raise _no_address(key, text)
        bracketed, host, port = found.groups()
        fits = _is_ipv6(bracketed) if bracketed is not None else _is_name_or_ipv4(host)
        if not fits:
            raise _no_address(key, text)
        return cls(host if bracketed is None else bracketed, int(port))

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


def _is_name_or_ipv4(host: str) -> bool:
    """Whether this is a host's name in ASCII, or four numbers."""
    if re.fullmatch(rf"{_LABEL}(?:\.{_LABEL})*\.?", host) is None:
        return False
    if host.rstrip(".").rpartition(".")[2].isdigit():  # no name ends so
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
    return True


def _is_ipv6(host: str) -> bool:
    """Whether this is an IPv6 address, perhaps with a zone."""
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return host.isascii() and host.isprintable() and " " not in host


def _no_address(key: str, text: str) -> ConfigurationError:
    """The error for what is no address, with what is wrong with it as far as that can be told."""
    host, _, port = text.rpartition(":")
    if "://" in text:
        what = "it begins with a scheme. Leave it out"
    elif text != "".join(text.split()):
        what = "it has white space in it. Leave that out"
    elif not text.isascii():
        what = "it has a character that is not ASCII. Write digits as 0 to 9, names as xn--..."
    elif "@" in text:
        what = "it names a user. Leave that out"
    elif "/" in text:
        what = "it has a path. Leave that out"
    elif not host or not port:
        what = "the host or the port is missing"
    elif ":" in host and "[" not in host:
        what = "it has several colons. Put an IPv6 host in brackets"
    elif not port.isdigit() or len(port) > 5 or int(port) > MOST_PORT:
        what = f"the port must be a number up to {MOST_PORT}"
    else:
        what = f"{host!r} is neither a name nor an address of a host"
    return ConfigurationError(
        f"{key} must be HOST:PORT, as in label-party.example:7700 ({_RULE}), got {text!r}: {what}."
    )
