"""The handshake: the same terms, the same records, the same split, before anything is trained."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import torch

from cutlayer.data import id_digests, shared_ids
from cutlayer.data.tensor_records import Records
from cutlayer.errors import ConfigurationError, ProtocolError, TermsMismatchError
from cutlayer.parties.agreement import Agreement, agree_on
from cutlayer.parties.terms import Terms
from cutlayer.protocol import ErrorCode, Kind, Role, Session, Shape
from cutlayer.protocol.messages import JsonScalar

_NONCE_BYTES = 16
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Greeting:
    """What HELLO says beyond the terms, checked."""

    records: int
    nonce: str
    checkpoints: frozenset[int]
    """Epochs from whose end this party can go on; 0, a fresh start, is always among them."""
    epochs_left: int | None
    """At the label party: how many epochs the plan of its protection still allows."""


@dataclass(frozen=True)
class EpochRange:
    """Which epochs are trained in this start of a run."""

    begin: int
    """The newest epoch whose end both parties can go on from; 0 is a fresh start."""
    end: int
    """One past the last; before the terms' number where the planned releases are used up."""


def shake_hands(
    session: Session,
    terms: Terms,
    records: Records,
    checkpoints: Sequence[int] = (),
    epochs_left: int | None = None,
) -> tuple[Agreement, EpochRange]:
    """Compare terms, match records by id, and find out from where to go on.

    Args:
        session: new.
        terms: of this party.
        records: of this party.
        checkpoints: epochs from whose end this party can go on.
        epochs_left: at the label party: how many more its protection's plan allows. It follows
            from the plan and from what was begun, never from labels.

    Returns:
        The agreement, and the epochs to train.

    Raises:
        TermsMismatchError: the parties were started with different settings, or their groups
            differ.
        ConfigurationError: the terms speak of groups and the records have none, or the reverse.
        DataError: no record is shared.
        ProtocolError: the peer breaks the protocol.
        ConnectionLostError: the peer is gone or silent.
    """
    if terms.grouped != (records.groups is not None):
        raise ConfigurationError(
            f"{session.role.value}: the terms {'split by group' if terms.grouped else 'do not'}, "
            f"and the records have {'no' if records.groups is None else ''} groups. Name the group "
            "column at both parties or at none."
        )
    nonce = secrets.token_hex(_NONCE_BYTES)
    own = Greeting(len(records.ids), nonce, frozenset({0, *checkpoints}), epochs_left)
    theirs = _exchange_hellos(session, terms, own)
    ordered = (own, theirs) if session.role is Role.LABEL else (theirs, own)
    salt = "".join(greeting.nonce for greeting in ordered).encode()
    agreement = _match(session, terms, records, theirs.records, salt)
    _compare_split(session, agreement)
    begin = min(max(own.checkpoints & theirs.checkpoints), terms.epochs)
    left = own.epochs_left if session.role is Role.LABEL else theirs.epochs_left
    end = terms.epochs if left is None else min(terms.epochs, begin + left)
    return agreement, EpochRange(begin, end)


def _exchange_hellos(session: Session, terms: Terms, own: Greeting) -> Greeting:
    """Send and compare HELLO; returns what the peer said."""
    fields: dict[str, JsonScalar] = {
        **terms.as_fields(),
        "role": session.role.value,
        "records": own.records,
        "nonce": own.nonce,
        "checkpoints": " ".join(str(epoch) for epoch in sorted(own.checkpoints)),
        "epochs_left": own.epochs_left,
        "cutlayer": version("cutlayer"),
    }
    if session.role is Role.LABEL:
        session.send_fields(Kind.HELLO, fields)
        theirs = session.receive_fields(Kind.HELLO)
    else:
        theirs = session.receive_fields(Kind.HELLO)
        session.send_fields(Kind.HELLO, fields)
    # Compared when both have spoken, so that each can name what differs.
    try:
        terms.require_equal(theirs, session.role)
    except TermsMismatchError:
        session.abort(ErrorCode.TERMS)
        raise
    greeting = _greeting_of(theirs, session.role.peer)
    if greeting is None:
        session.abort(ErrorCode.PROTOCOL)
        raise ProtocolError(f"{session.role.value}: the HELLO of the peer is malformed.")
    return greeting


def _greeting_of(fields: dict[str, JsonScalar], role: Role) -> Greeting | None:
    """The peer's HELLO, or ``None`` where it is malformed."""
    nonce, records, epochs = (fields.get(name) for name in ("nonce", "records", "checkpoints"))
    if fields.get("role") != role.value or not isinstance(epochs, str):
        return None
    if not isinstance(nonce, str) or not re.fullmatch(f"[0-9a-f]{{{2 * _NONCE_BYTES}}}", nonce):
        return None
    if not isinstance(records, int) or isinstance(records, bool) or records < 1:
        return None
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in epochs.split()):
        return None
    left = fields.get("epochs_left")
    if left is not None and (not isinstance(left, int) or isinstance(left, bool) or left < 0):
        return None
    return Greeting(records, nonce, frozenset({0, *(int(word) for word in epochs.split())}), left)


def _match(
    session: Session, terms: Terms, records: Records, peer_count: int, salt: bytes
) -> Agreement:
    """Exchange digests of the ids, and keep what both hold."""
    own = id_digests(records.ids, salt=salt)
    message = torch.from_numpy(own.copy())  # torch takes no read-only array
    shape = Shape(rows=peer_count, width=_DIGEST_BYTES, dtype=torch.uint8)
    if session.role is Role.LABEL:
        session.send_tensor(Kind.IDS, message)
        peer = session.receive_tensor(Kind.IDS, shape)
    else:
        peer = session.receive_tensor(Kind.IDS, shape)
        session.send_tensor(Kind.IDS, message)
    alignment = shared_ids(records.ids, own, peer.numpy())
    groups = None
    if records.groups is not None:
        groups = dict(zip(records.ids, records.groups, strict=True))
    return agree_on(alignment.shared, terms, groups, alignment.only_here, alignment.only_there)


def _compare_split(session: Session, agreement: Agreement) -> None:
    """See that both parties split alike, which groups that differ would prevent."""
    own: dict[str, JsonScalar] = {"split": agreement.digest}
    if session.role is Role.LABEL:
        session.send_fields(Kind.SPLIT, own)
        theirs = session.receive_fields(Kind.SPLIT)
    else:
        theirs = session.receive_fields(Kind.SPLIT)
        session.send_fields(Kind.SPLIT, own)
    if theirs != own:
        session.abort(ErrorCode.TERMS)
        raise TermsMismatchError(
            f"{session.role.value}: the parties split their records differently, though ids and "
            "seed are the same: their group columns hold different values. Give both the same "
            "column."
        )
