"""HELLO: what it says beyond the terms, and what it must look like."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cutlayer.errors import ProtocolError
from cutlayer.parties.terms import Order
from cutlayer.protocol.messages import JsonScalar, Role

NONCE_BYTES = 32
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Hello:
    """Where a party stands, for its peer. None of it depends on labels."""

    records: int
    """How many it brings, at least 1."""
    nonce: str
    """Its half of the salt of this session's id digests, in hex."""
    checkpoints: frozenset[int]
    """Steps after which it kept its state."""
    released: int
    """At the label party: steps that it has answered. At the other 0."""
    order: str
    """Of the label party the hash of its order nonce, of the other the nonce itself, in hex; empty
    where the order comes from the seed alone."""
    release: str
    """Version of cutlayer."""
    clock: int
    """Seconds since 1970."""
    feature_copy: bool = False
    """At the non-label party: whether components that it sends may be a copy of its features."""

    def as_fields(self, role: Role) -> dict[str, JsonScalar]:
        """What goes into HELLO."""
        return {
            "role": role.value,
            "records": self.records,
            "nonce": self.nonce,
            "checkpoints": _listed(self.checkpoints),
            "released": self.released,
            "order_word": self.order,
            "cutlayer": self.release,
            "clock": self.clock,
            "feature_copy": self.feature_copy,
        }


def read_hello(
    fields: Mapping[str, JsonScalar], sender: Role, order: Order, terms: frozenset[str]
) -> Hello:
    """Read what the peer says of itself.

    Args:
        fields: of its HELLO.
        sender: the peer.
        order: what the batch order is drawn from.
        terms: names of the fields that are terms, which were compared before.

    Raises:
        ProtocolError: a field is missing, breaks its rule, or is not known.
    """
    rules = _rules(sender, order)
    for name, (holds, rule) in rules.items():
        if name not in fields:
            raise _malformed(sender, f"{name} is missing")
        if not holds(fields[name]):
            raise _malformed(sender, f"{name} must be {rule}, got {fields[name]!r}")
    if unknown := sorted(fields.keys() - rules.keys() - terms):
        raise _malformed(sender, f"{unknown[0]!r} is no field of it")
    return Hello(
        records=int(str(fields["records"])),
        nonce=str(fields["nonce"]),
        checkpoints=_steps(fields["checkpoints"]) or frozenset(),
        released=int(str(fields["released"])),
        order=str(fields["order_word"]),
        release=str(fields["cutlayer"]),
        clock=int(str(fields["clock"])),
        feature_copy=bool(fields["feature_copy"]),
    )


def is_word(value: JsonScalar) -> bool:
    """Whether this is 32 bytes in hexadecimal digits."""
    form = f"[0-9a-f]{{{2 * NONCE_BYTES}}}"
    return isinstance(value, str) and re.fullmatch(form, value) is not None


_Rule = tuple[Callable[[JsonScalar], bool], str]


def _rules(sender: Role, order: Order) -> dict[str, _Rule]:
    """For each field, when it is right, and that in words."""
    word = (is_word, f"{NONCE_BYTES} bytes in hexadecimal digits")
    whole = (_is_whole, "a whole number from 0")
    return {
        "role": (lambda value: value == sender.value, repr(sender.value)),
        "records": (lambda value: _is_whole(value) and value != 0, "a whole number from 1"),
        "nonce": word,
        "checkpoints": (lambda value: _steps(value) is not None, "rising steps between blanks"),
        "released": whole if sender is Role.LABEL else (_is_zero, "0"),
        "order_word": word if order == "nonces" else (lambda value: value == "", "empty"),
        # It is shown to the operator: nothing that a terminal would obey.
        "cutlayer": (_is_version, "a version of up to 40 letters, digits and .+!-"),
        "clock": whole,
        "feature_copy": (
            (_is_flag, "true or false")
            if sender is Role.NON_LABEL
            else (lambda value: value is False, "false")
        ),
    }


def _is_whole(value: JsonScalar) -> bool:
    """Whether this is a whole number of at least 0, and no truth value."""
    return type(value) is int and 0 <= value < _LARGEST


def _is_zero(value: JsonScalar) -> bool:
    """Whether this is the number 0, and no truth value."""
    return type(value) is int and value == 0


def _is_flag(value: JsonScalar) -> bool:
    """Whether this is a truth value."""
    return isinstance(value, bool)


def _is_version(value: JsonScalar) -> bool:
    """Whether this can be a version."""
    return isinstance(value, str) and re.fullmatch(r"[0-9A-Za-z.+!-]{1,40}", value) is not None


def _steps(value: JsonScalar) -> frozenset[int] | None:
    """A list of steps in its one form, or ``None``."""
    if not isinstance(value, str) or re.fullmatch(r"(\d{1,17}( \d{1,17})*)?", value, re.A) is None:
        return None
    steps = frozenset(int(word) for word in value.split())
    return steps if _listed(steps) == value else None


def _listed(steps: frozenset[int]) -> str:
    """Steps as a text."""
    return " ".join(str(step) for step in sorted(steps))


def _malformed(sender: Role, what: str) -> ProtocolError:
    """The error for a HELLO that breaks a rule."""
    return ProtocolError(
        f"{sender.peer.value}: the HELLO of the {sender.value} is malformed: {what}."
    )
