"""The handshake: the same terms, the same records, the same split, before anything is trained."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version

import torch

from cutlayer.alignment.shared_ids import id_digests, shared_ids
from cutlayer.data import PartyTable
from cutlayer.data.tables.lost_ids import lost_ids
from cutlayer.data.tensor_records import Records
from cutlayer.errors import ConfigurationError, DataError, ProtocolError, TermsMismatchError
from cutlayer.parties.agreement import Agreement, agree_on
from cutlayer.parties.hello import NONCE_BYTES, Hello, is_word, read_hello
from cutlayer.parties.private_alignment import MAX_IDS
from cutlayer.parties.terms import Terms
from cutlayer.protocol import ErrorCode, Kind, Role, Session, Shape
from cutlayer.protocol.messages import JsonScalar

CLOCK_TOLERANCE = 300
"""Seconds that the parties' clocks may differ without a word."""
_DIGEST_BYTES = 16
_ALIGN_AGAIN = (
    "Run `cutlayer align CONFIG` at both parties, or bring files with exactly the same ids."
)

Tell = Callable[[str], None]
"""Takes a notice for the operator."""


def say_nothing(_: str) -> None:
    """Nobody listens."""


def once(tell: Tell) -> Tell:
    """Passes each notice on once, however often the parties meet again."""
    told: set[str] = set()

    def tell_once(notice: str) -> None:
        if notice not in told:
            told.add(notice)
            tell(notice)

    return tell_once


@dataclass(frozen=True)
class ResumeState:
    """Where a party stands when it meets its peer; none of it depends on labels."""

    checkpoints: tuple[int, ...] = ()
    """Steps after which it kept its state; none, and nothing released, is a fresh start. For a
    prediction the one step after which its half was kept."""
    released: int = 0
    """At the label party: steps that it has answered."""
    order_nonce: bytes | None = None
    """Its half of the batch order, 32 bytes, the same at every start of the run; ``None`` where
    the order comes from the seed alone."""
    pin_order: Callable[[str], str] | None = None
    """Puts what the peer says of its half on record, the first time only; returns the record."""
    pin_records: Callable[[str], str] | None = None
    """At the label party: the same with a hash of the shared records, before its own half is
    revealed."""
    max_ids: int = MAX_IDS
    """The largest number of records that the peer may announce."""
    feature_copy: bool = False
    """At the non-label party: whether components that it sends may be a copy of its features."""


@dataclass(frozen=True)
class Opening:
    """What both parties know alike when the training begins or goes on."""

    agreement: Agreement
    step: int
    """Steps after which both have a state to go on from; 0 is a fresh start."""
    begun: bool
    """Whether the label party has answered a step of this run before."""
    feature_copy: bool = False
    """At the label party: whether the components that come may be a copy of the peer's features."""


def shake_hands(
    session: Session, terms: Terms, records: Records, own: ResumeState, tell: Tell
) -> Opening:
    """Compare terms, match records by id, and find out from where to go on.

    Args:
        session: new.
        terms: of this party.
        records: of this party.
        own: where this party stands.
        tell: told what the operator should know and what does not stop the run.

    Raises:
        TermsMismatchError: the parties were started with different settings, or their groups
            differ.
        ConfigurationError: the terms speak of groups and the records have none, or the reverse.
        DataError: no record is shared, the parties have no state in common any more, or the halves
            that are to predict were kept after different steps.
        ProtocolError: the peer breaks the protocol.
        ConnectionLostError: the peer is gone or silent.
    """
    if terms.grouped != (records.groups is not None):
        raise ConfigurationError(
            f"{session.role.value}: the terms {'split by group' if terms.grouped else 'do not'}, "
            f"and the records have {'no' if records.groups is None else ''} groups. Name the group "
            "column at both parties or at none."
        )
    if (terms.order == "nonces") != (own.order_nonce is not None):
        raise ConfigurationError(
            f"{session.role.value}: the order of the batches is drawn from {terms.order}, which "
            f"{'needs a' if own.order_nonce is None else 'has no use for the'} nonce of this party."
        )
    greeting = Hello(
        records=len(records.ids),
        nonce=secrets.token_hex(NONCE_BYTES),
        checkpoints=frozenset(own.checkpoints or (() if own.released else (0,))),
        released=own.released,
        order=_order_word(session.role, own.order_nonce),
        release=version("cutlayer"),
        clock=int(time.time()),
        feature_copy=own.feature_copy,
    )
    theirs = _exchange_hellos(session, terms, greeting)
    if theirs.records > own.max_ids:
        session.abort(ErrorCode.TERMS)
        raise TermsMismatchError(
            f"{session.role.value}: the {session.role.peer.value} announces {theirs.records:,} "
            f"records, more than the {own.max_ids:,} that this party allows. Raise "
            "max_ids if that many are expected."
        )
    if _numbered(records) and theirs.records != len(records.ids):
        session.abort(ErrorCode.TERMS)
        raise _unequal_rows(session.role, len(records.ids), theirs.records)
    if own.pin_order is not None and own.pin_order(theirs.order) != theirs.order:
        session.abort(ErrorCode.TERMS)
        raise TermsMismatchError(
            f"{session.role.value}: the {session.role.peer.value} brings another half of the "
            "batch order than when this run began: it lost its run.key, or wants to choose who "
            "meets whom. Put its run folder back, or begin a run of another name at both parties."
        )
    if terms.mode == "prediction":
        _require_same_training(session, greeting, theirs)
    _compare_machines(session.role, greeting, theirs, tell)
    ordered = (greeting, theirs) if session.role is Role.LABEL else (theirs, greeting)
    salt = sha256("".join(one.nonce for one in ordered).encode()).digest()
    agreement = _match(session, terms, records, theirs.records, salt)
    lost = lost_ids(session.role.value, records.ids, agreement.ids, agreement.only_there)
    if lost is not None:
        tell(lost)
    predicting = terms.mode == "prediction"
    step = 0 if predicting else _step_to_go_on_from(session, greeting, theirs)
    revealed = _compare_splits(session, terms, agreement, own)
    if own.order_nonce is not None:
        halves = _order_halves(session, own.order_nonce, theirs.order, revealed)
        seed = int.from_bytes(sha256(b"cutlayer order" + b"".join(halves)).digest(), "little")
        agreement = replace(agreement, order_seed=seed)
    begun = max(greeting.released, theirs.released) > 0
    return Opening(agreement, step, begun=begun, feature_copy=theirs.feature_copy)


def _exchange_hellos(session: Session, terms: Terms, own: Hello) -> Hello:
    """Send and compare HELLO; returns what the peer said."""
    fields = {**terms.as_fields(), **own.as_fields(session.role)}
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
    return read_hello(theirs, session.role.peer, terms.order, frozenset(terms.as_fields()))


def _order_word(role: Role, nonce: bytes | None) -> str:
    """The label party speaks first, so it commits to its nonce; the other can say it at once."""
    if nonce is None:
        return ""
    return sha256(nonce).hexdigest() if role is Role.LABEL else nonce.hex()


def _order_halves(
    session: Session, own: bytes, their_word: str, revealed: JsonScalar
) -> tuple[bytes, bytes]:
    """The nonces of both parties, the label party's first."""
    if session.role is Role.LABEL:
        return own, bytes.fromhex(their_word)
    nonce = bytes.fromhex(str(revealed))
    if sha256(nonce).hexdigest() != their_word:
        session.abort(ErrorCode.PROTOCOL)
        raise ProtocolError(
            "non-label party: the label party's half of the batch order is not the one that it "
            "committed to."
        )
    return nonce, own


def _compare_machines(role: Role, own: Hello, theirs: Hello, tell: Tell) -> None:
    """Speak of differences that hinder nobody but puzzle whoever compares two logs."""
    if theirs.release != own.release:
        tell(
            f"{role.value}: the {role.peer.value} runs cutlayer {theirs.release}, this party "
            f"{own.release}. The protocol is the same, so the run goes on."
        )
    apart = theirs.clock - own.clock
    if abs(apart) > CLOCK_TOLERANCE:
        tell(
            f"{role.value}: the clock of the {role.peer.value} is {abs(apart)} s "
            f"{'ahead' if apart > 0 else 'behind'}. Training does not mind; certificates might."
        )


def _step_to_go_on_from(session: Session, own: Hello, theirs: Hello) -> int:
    """The newest step after which both have a state.

    Raises:
        DataError: there is none, or the label party's journal lacks steps that were answered.
    """
    label = own if session.role is Role.LABEL else theirs
    newest = max(own.checkpoints | theirs.checkpoints, default=0)
    if newest > label.released:
        raise DataError(
            f"{session.role.value}: there is a state after step {newest}, but the journal of the "
            f"label party knows of {label.released} answered steps only: entries are missing, or "
            "the run folders do not belong together. Put the journal back, or begin a run of "
            "another name."
        )
    common = own.checkpoints & theirs.checkpoints
    if not common:
        here, there = (_listed(one.checkpoints) for one in (own, theirs))
        raise DataError(
            f"{session.role.value}: the parties have no state in common to go on from: after steps "
            f"{here} here, {there} at the {session.role.peer.value}. Put the missing checkpoints "
            "back, or begin a run of another name."
        )
    return max(common)


def _require_same_training(session: Session, own: Hello, theirs: Hello) -> None:
    """See that two halves that are to predict have learnt from the same steps."""
    if own.checkpoints == theirs.checkpoints:
        return
    here, there = (_listed(one.checkpoints) for one in (own, theirs))
    session.abort(ErrorCode.TERMS)
    raise DataError(
        f"{session.role.value}: the half here was kept after step {here}, that of the "
        f"{session.role.peer.value} after step {there}: one party missed the end of a training. "
        "Start the training command again at both; it finishes what was interrupted. Then predict."
    )


def _numbered(records: Records) -> bool:
    """Whether records are matched by their position in a file."""
    return isinstance(records, PartyTable) and records.numbered


def _unequal_rows(role: Role, own: int, theirs: int) -> DataError:
    """The error for records that are matched by position and cannot be the same."""
    return DataError(
        f"{role.value}: records are matched by row number, so both files must have the same rows, "
        f"but there are {own:,} here and {theirs:,} at the {role.peer.value}. From the first row "
        "that one file lacks, every record would get another's features. Bring files of the same "
        "records in the same order, or name an id column that both have."
    )


def _listed(steps: frozenset[int]) -> str:
    """Steps as a text."""
    return ", ".join(str(step) for step in sorted(steps)) or "none"


def _match(
    session: Session, terms: Terms, records: Records, peer_count: int, salt: bytes
) -> Agreement:
    """Exchange digests of the ids, and keep what both hold; or rely on an alignment before."""
    groups = None
    if records.groups is not None:
        groups = dict(zip(records.ids, records.groups, strict=True))
    if terms.alignment != "digests":
        if len(records.ids) != peer_count:
            session.abort(ErrorCode.TERMS)
            raise TermsMismatchError(
                f"{session.role.value}: alignment is {terms.alignment!r}, and this party brings "
                f"{len(records.ids):,} records where the {session.role.peer.value} brings "
                f"{peer_count:,}. {_ALIGN_AGAIN}"
            )
        return _agree(session.role, records.ids, terms, groups)
    own = id_digests(records.ids, salt=salt)
    message = torch.from_numpy(own.copy())  # torch takes no read-only array
    shape = Shape(rows=peer_count, width=_DIGEST_BYTES, dtype=torch.uint8)
    if session.role is Role.LABEL:
        session.send_tensor(Kind.IDS, message)
        peer = session.receive_tensor(Kind.IDS, shape)
    else:
        peer = session.receive_tensor(Kind.IDS, shape)
        session.send_tensor(Kind.IDS, message)
    try:
        alignment = shared_ids(records.ids, own, peer.numpy())
    except (DataError, ProtocolError) as error:
        error.args = (f"{session.role.value}: {error}",)
        raise
    left_out = alignment.only_here, alignment.only_there
    return _agree(session.role, alignment.shared, terms, groups, *left_out)


def _agree(
    role: Role,
    ids: Sequence[str],
    terms: Terms,
    groups: Mapping[str, str] | None,
    only_here: int = 0,
    only_there: int = 0,
) -> Agreement:
    """Split the shared records, and say at which party it was found that they cannot be."""
    try:
        return agree_on(ids, terms, groups, only_here, only_there)
    except DataError as error:
        raise DataError(f"{role.value}: {error}") from error


def _compare_splits(
    session: Session, terms: Terms, agreement: Agreement, own: ResumeState
) -> JsonScalar:
    """See that both parties split alike, which groups that differ would prevent.

    The non-label party speaks first: only once both are found to have the same records and split
    are these put on record, and only then is the order revealed. So a mistake costs nothing but
    another start, and nobody learns the order before the records are fixed.

    Does not protect: ids of the non-label party under ``given``. Its hash has no key, so a label
    party that lacks a few of the ids can test guesses of these few.

    Returns:
        What the label party reveals of the batch order.
    """
    said: dict[str, JsonScalar] = {"split": agreement.digest, "order_nonce": None}
    if session.role is Role.NON_LABEL:
        session.send_fields(Kind.SPLIT, said)
    theirs = session.receive_fields(Kind.SPLIT)
    _require_split_fields(session.role.peer, theirs, own.order_nonce is not None)
    if theirs["split"] != agreement.digest:
        session.abort(ErrorCode.TERMS)
        raise _other_split(session.role, terms)
    if session.role is Role.LABEL:
        _put_records_on_record(session, agreement, own)
        if own.order_nonce is not None:
            said["order_nonce"] = own.order_nonce.hex()
        session.send_fields(Kind.SPLIT, said)
    return theirs["order_nonce"]


def _put_records_on_record(session: Session, agreement: Agreement, own: ResumeState) -> None:
    """Keep the peer from coming back with other records once it knows order and split."""
    if own.pin_records is None or own.pin_records(agreement.digest) == agreement.digest:
        return
    session.abort(ErrorCode.TERMS)
    raise TermsMismatchError(
        f"{session.role.value}: the parties share other records than when this run began. Whoever "
        "chose them anew at each start could choose who meets whom, or who is held out. Bring the "
        "same records, or begin a run of another name at both parties."
    )


def _other_split(role: Role, terms: Terms) -> TermsMismatchError:
    """The error for parties that would train on a mixture."""
    if terms.alignment == "digests":
        cause = "ids and seed are the same: their group columns hold different values. Give both "
        cause += "the same column, and start both again; nothing was sent, so the run keeps its "
        cause += "name."
    else:
        cause = "the seed is the same: they bring different ids, or their group columns hold "
        cause += f"different values. {_ALIGN_AGAIN}"
    return TermsMismatchError(
        f"{role.value}: the parties split their records differently, though {cause}"
    )


def _require_split_fields(sender: Role, fields: dict[str, JsonScalar], nonces: bool) -> None:
    """Hold the peer's SPLIT to its form."""
    if fields.keys() != {"split", "order_nonce"}:
        what = f"its fields must be split and order_nonce, got {sorted(fields)}"
    elif not isinstance(fields["split"], str):
        what = f"split must be a hash, got {fields['split']!r}"
    elif sender is Role.LABEL and nonces and not is_word(fields["order_nonce"]):
        what = f"order_nonce must be {NONCE_BYTES} bytes in hexadecimal digits"
    elif (sender is Role.NON_LABEL or not nonces) and fields["order_nonce"] is not None:
        what = "order_nonce must be null"
    else:
        return
    raise ProtocolError(
        f"{sender.peer.value}: the SPLIT of the {sender.value} is malformed: {what}."
    )
