"""The handshake: the same terms, the same records, the same split, before anything is trained."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version

import torch
from torch import Tensor

from cutlayer.data import PartyTable, Split, id_digests, shared_ids
from cutlayer.errors import ProtocolError, TermsMismatchError
from cutlayer.parties.terms import Terms
from cutlayer.protocol import ErrorCode, Kind, Role, Session, Shape

_NONCE_BYTES = 16
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Agreement:
    """What both parties know alike after the handshake."""

    ids: tuple[str, ...]
    """Ids that both hold, in the order of record numbers."""
    train: Tensor
    """Record numbers of the training records, int64."""
    test: Tensor
    """Record numbers of the test records, int64."""
    only_here: int
    """Records of this party that the peer lacks; left out."""
    only_there: int
    """Records of the peer that this party lacks; left out."""


def shake_hands(session: Session, terms: Terms, table: PartyTable) -> Agreement:
    """Compare terms and match records by id.

    Raises:
        TermsMismatchError: the parties were started with different settings.
        DataError: no record is shared.
        ProtocolError: the peer breaks the protocol.
        ConnectionLostError: the peer is gone or silent.
    """
    salt, peer_count = _exchange_hellos(session, terms, len(table.ids))
    own = id_digests(table.ids, salt=salt)
    message = torch.from_numpy(own.copy())  # torch takes no read-only array
    shape = Shape(rows=peer_count, width=_DIGEST_BYTES, dtype=torch.uint8)
    if session.role is Role.LABEL:
        session.send_tensor(Kind.IDS, message)
        peer = session.receive_tensor(Kind.IDS, shape)
    else:
        peer = session.receive_tensor(Kind.IDS, shape)
        session.send_tensor(Kind.IDS, message)
    alignment = shared_ids(table.ids, own, peer.numpy())
    return agree_on(alignment.shared, terms, alignment.only_here, alignment.only_there)


def agree_on(
    ids: Iterable[str], terms: Terms, only_here: int = 0, only_there: int = 0
) -> Agreement:
    """Number and split the records; each party comes to the same result by itself."""
    # By id, not by salted digest: the same records get the same numbers in every run.
    numbered = tuple(sorted(ids))
    split = Split.by_fold(numbered, seed=terms.seed, folds=terms.folds, test_fold=terms.test_fold)
    return Agreement(numbered, split.train, split.test, only_here, only_there)


def _exchange_hellos(session: Session, terms: Terms, records: int) -> tuple[bytes, int]:
    """Send and compare HELLO; returns the common salt and the peer's number of records."""
    nonce = secrets.token_hex(_NONCE_BYTES)
    own = {
        **terms.as_fields(),
        "role": session.role.value,
        "records": records,
        "nonce": nonce,
        "cutlayer": version("cutlayer"),
    }
    if session.role is Role.LABEL:
        session.send_fields(Kind.HELLO, own)
        theirs = session.receive_fields(Kind.HELLO)
    else:
        theirs = session.receive_fields(Kind.HELLO)
    try:
        terms.require_equal(theirs, session.role)
    except TermsMismatchError:
        session.abort(ErrorCode.TERMS)
        raise
    if session.role is Role.NON_LABEL:
        session.send_fields(Kind.HELLO, own)
    peer_nonce, peer_records = theirs.get("nonce"), theirs.get("records")
    if (
        theirs.get("role") != session.role.peer.value
        or not isinstance(peer_nonce, str)
        or len(peer_nonce) != 2 * _NONCE_BYTES
        or not isinstance(peer_records, int)
        or isinstance(peer_records, bool)
        or peer_records < 1
    ):
        session.abort(ErrorCode.PROTOCOL)
        raise ProtocolError(f"{session.role.value}: the HELLO of the peer is malformed.")
    ordered = (nonce, peer_nonce) if session.role is Role.LABEL else (peer_nonce, nonce)
    return "".join(ordered).encode(), peer_records
