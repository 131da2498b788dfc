"""Refusal: what a party is told when the two ends of a connection do not fit.

What can be known depends on the two transports. A party that speaks TLS learns by ALPN whether the
other end speaks the same inside; one that speaks plain text sees the other's first bytes. gRPC's
listener learns nothing of whom it turned away, so it names what to look at.
"""

from cutlayer.errors import PeerRefusedError, ProtocolError
from cutlayer.protocol.address import Address

ALPN = "cutlayer"
"""What the stream transport is called inside TLS; gRPC is called ``h2``."""
PAIR_AGAIN = "If that was the peer, pair again at both parties with `cutlayer pair`."
UNSEEN = (
    "gRPC does not tell whom it turned away. If the peer says that it was there, look whether "
    "transport and insecure_loopback are equal at both parties, and whether both are paired."
)
_FIX = "transport and insecure_loopback must be equal at both parties."


def no_trust(address: Address, said: str) -> PeerRefusedError:
    """The error of a non-label party that is not trusted by the other, or does not trust it."""
    return PeerRefusedError(
        f"non-label party: no trust between the parties at {address} ({said}). Likely causes: the "
        "label party has not paired this party's certificate, or holds an older one; one of the "
        "two has expired; something between the parties opens TLS; insecure_loopback is true at "
        "the label party only. Compare fingerprints and run `cutlayer pair` at both parties."
    )


def other_transport(what: str) -> ProtocolError:
    """The error of a party whose peer speaks another transport.

    Args:
        what: the evidence, as the beginning of a sentence.
    """
    return ProtocolError(f"{what}, so it probably has another transport: {_FIX}")


def require_greeting(data: bytes, expected: bytes) -> None:
    """Refuse whoever begins with something else, and say what it looks like.

    Args:
        data: what came, one byte at least.
        expected: what had to come.

    Raises:
        ProtocolError: the two differ.
    """
    if data == expected:
        return
    if data[0] in (0x15, 0x16) and data[1:2] == b"\x03":  # an alert, or a handshake
        raise other_transport("The other end speaks TLS, and this party plain text")
    if data.startswith(b"PRI * HT"):
        raise other_transport("The other end speaks HTTP/2, as gRPC does")
    raise other_transport("The other end does not begin as this transport does")
