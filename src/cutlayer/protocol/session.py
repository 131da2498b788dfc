"""The session: which message may come when, from whom, in which shape.

Both parties keep the same machine and check every message against it, sent or received::

    label HELLO -> non-label HELLO -> label IDS -> non-label IDS
          -> non-label SPLIT -> label SPLIT -> READY
    (no IDS where the terms say that the records were aligned before)

    loop:       READY --ACTIVATION--> REPLY_DUE --GRADIENT--> READY --QUERY--> QUERYING --QUERY--+
                                                                                  ^--------------+
                (with staleness S and batches in m messages the non-label party may send further
                activations in REPLY_DUE, until (S + 1) m are in flight)
    one round:  READY --FROZEN--> RELEASING --FROZEN--+
                                     ^----------------+
    alignment:  LABEL_IDS --label POINTS--> NON_LABEL_POINTS --non-label POINTS--> LABEL_POINTS
                LABEL_POINTS --label POINTS or TAGS--> NON_LABEL_POINTS or NON_LABEL_TAGS
                NON_LABEL_TAGS --non-label TAGS--> LABEL_TAGS --label TAGS or ALIGNED--> ...
                NON_LABEL_ALIGNED --non-label ALIGNED--> LABEL_ALIGNED --label ALIGNED--> MATCHED
    end:        READY | QUERYING | RELEASING | MATCHED --BYE--> LEAVING --BYE--> ENDED
    any state but ENDED and FAILED --ERROR--> FAILED
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.errors import ConnectionLostError, PeerEndedError, ProtocolError
from cutlayer.protocol import codec
from cutlayer.protocol.interruption import saying_farewell, whole
from cutlayer.protocol.messages import ErrorCode, JsonScalar, Kind, Message, Role
from cutlayer.protocol.transport import Deadlines, Transport

MAX_MAGNITUDE = 1e6
"""Largest value in an activation or a gradient; a squared loss of it still fits a float32."""
ERROR_WIDTH = 16
"""Bytes of every ERROR payload: its length tells nothing."""
_ARRIVED_SECONDS = 0.5
"""For a message that is there already, or on its way."""


class State(Enum):
    """What the session waits for."""

    LABEL_HELLO = auto()
    NON_LABEL_HELLO = auto()
    LABEL_IDS = auto()
    NON_LABEL_IDS = auto()
    NON_LABEL_SPLIT = auto()
    LABEL_SPLIT = auto()
    READY = auto()
    REPLY_DUE = auto()
    QUERYING = auto()
    RELEASING = auto()
    LABEL_POINTS = auto()
    NON_LABEL_POINTS = auto()
    LABEL_TAGS = auto()
    NON_LABEL_TAGS = auto()
    NON_LABEL_ALIGNED = auto()
    LABEL_ALIGNED = auto()
    MATCHED = auto()
    LEAVING = auto()
    ENDED = auto()
    FAILED = auto()


_L, _N = Role.LABEL, Role.NON_LABEL
TRANSITIONS: dict[tuple[State, Role, Kind], State] = {
    (State.LABEL_HELLO, _L, Kind.HELLO): State.NON_LABEL_HELLO,
    (State.NON_LABEL_HELLO, _N, Kind.HELLO): State.LABEL_IDS,
    (State.LABEL_IDS, _L, Kind.IDS): State.NON_LABEL_IDS,
    (State.LABEL_IDS, _N, Kind.SPLIT): State.LABEL_SPLIT,
    (State.NON_LABEL_IDS, _N, Kind.IDS): State.NON_LABEL_SPLIT,
    (State.NON_LABEL_SPLIT, _N, Kind.SPLIT): State.LABEL_SPLIT,
    (State.LABEL_SPLIT, _L, Kind.SPLIT): State.READY,
    (State.READY, _N, Kind.ACTIVATION): State.REPLY_DUE,
    (State.REPLY_DUE, _N, Kind.ACTIVATION): State.REPLY_DUE,
    (State.REPLY_DUE, _L, Kind.GRADIENT): State.READY,
    (State.READY, _N, Kind.QUERY): State.QUERYING,
    (State.QUERYING, _N, Kind.QUERY): State.QUERYING,
    (State.READY, _N, Kind.FROZEN): State.RELEASING,
    (State.RELEASING, _N, Kind.FROZEN): State.RELEASING,
    (State.READY, _N, Kind.BYE): State.LEAVING,
    (State.QUERYING, _N, Kind.BYE): State.LEAVING,
    (State.RELEASING, _N, Kind.BYE): State.LEAVING,
    (State.LABEL_IDS, _L, Kind.POINTS): State.NON_LABEL_POINTS,
    (State.NON_LABEL_POINTS, _N, Kind.POINTS): State.LABEL_POINTS,
    (State.LABEL_POINTS, _L, Kind.POINTS): State.NON_LABEL_POINTS,
    (State.LABEL_POINTS, _L, Kind.TAGS): State.NON_LABEL_TAGS,
    (State.NON_LABEL_TAGS, _N, Kind.TAGS): State.LABEL_TAGS,
    (State.LABEL_TAGS, _L, Kind.TAGS): State.NON_LABEL_TAGS,
    (State.LABEL_TAGS, _L, Kind.ALIGNED): State.NON_LABEL_ALIGNED,
    (State.NON_LABEL_ALIGNED, _N, Kind.ALIGNED): State.LABEL_ALIGNED,
    (State.LABEL_ALIGNED, _L, Kind.ALIGNED): State.MATCHED,
    (State.MATCHED, _N, Kind.BYE): State.LEAVING,
    (State.LEAVING, _L, Kind.BYE): State.ENDED,
}
"""The whole machine; ERROR apart, which either party may send in any state but the last two."""

_GREETING = {State.LABEL_HELLO, State.NON_LABEL_HELLO}
_HANDSHAKE = _GREETING | {
    State.LABEL_IDS,
    State.NON_LABEL_IDS,
    State.NON_LABEL_SPLIT,
    State.LABEL_SPLIT,
}


@dataclass(frozen=True)
class Shape:
    """What a tensor message must look like; ``rows`` or ``width`` ``None`` leaves it open."""

    rows: int | None
    width: int | None
    dtype: torch.dtype = torch.float32


class Session:
    """One party's end of a run: sends, receives, and keeps the machine.

    Args:
        role: of this party.
        transport: to the peer.
        run: its name, which ties every message to it.
        most_in_flight: how many activations may wait for their gradients at once, at least 1.
        deadlines: how long to wait for the peer.

    Raises:
        ValueError: ``most_in_flight`` is below 1.
    """

    def __init__(
        self,
        role: Role,
        transport: Transport,
        *,
        run: str,
        most_in_flight: int = 1,
        deadlines: Deadlines | None = None,
    ) -> None:
        check.at_least("most_in_flight", most_in_flight, 1)
        self.role = role
        self.state = State.LABEL_HELLO
        self._most_in_flight = most_in_flight
        self._in_flight = 0
        self._longest = 0
        self._held = ExitStack()
        self._transport = transport
        self._run = run
        self._deadlines = deadlines or Deadlines()

    def send_tensor(self, kind: Kind, tensor: Tensor, *, step: int = 0) -> None:
        """Send one tensor message; see :meth:`send_fields` for the errors."""
        self._send(Message(kind, step, tensor=tensor))

    def send_fields(self, kind: Kind, fields: dict[str, JsonScalar] | None = None) -> None:
        """Send one control message.

        Raises:
            ProtocolError: this party may not send this message now (a mistake of ours).
            ConnectionLostError: the peer is gone or does not take the message.
        """
        self._send(Message(kind, fields=fields or {}))

    def receive_tensor(self, kind: Kind, shape: Shape, *, step: int = 0) -> Tensor:
        """Wait for one tensor message of this kind, step and shape.

        Returns:
            The tensor; floating-point values are finite and at most 1e6 in size.

        Raises:
            ProtocolError: anything else came, or the peer ended the session.
            ConnectionLostError: the peer is gone or silent.
        """
        message = self._receive(kind, step, shape)
        if message.tensor is None:
            raise self._refuse(f"a {kind.name} without a tensor")
        if message.tensor.is_floating_point():
            try:
                check.finite(kind.name, message.tensor)
            except ValueError as error:
                raise self._refuse(f"values that are not finite ({error})") from error
            if message.tensor.numel() and float(message.tensor.abs().amax()) > MAX_MAGNITUDE:
                raise self._refuse(f"values beyond {MAX_MAGNITUDE:g}, which would ruin the model")
        return message.tensor

    def receive_fields(self, kind: Kind) -> dict[str, JsonScalar]:
        """Wait for one control message of this kind; see :meth:`receive_tensor` for the errors."""
        return self._receive(kind, 0, None).fields

    def abort(self, code: ErrorCode) -> None:
        """Tell the peer that this party ends the session, if the peer can still be told."""
        if self.state in (State.ENDED, State.FAILED):
            return
        self.state = State.FAILED
        text = code.value.encode().ljust(ERROR_WIDTH)
        tensor = torch.frombuffer(bytearray(text), dtype=torch.uint8).reshape(1, ERROR_WIDTH)
        header, payload = codec.encode(Message(Kind.ERROR, tensor=tensor), self._run)
        try:
            self._transport.send(header, payload, deadline=min(5.0, self._deadlines.step))
        except ConnectionLostError:
            return

    def __enter__(self) -> "Session":
        self._held.enter_context(saying_farewell(self._leave_stopped))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Whatever happened: tell the peer if it cannot know, and let go of the transport."""
        with self._held:
            try:
                if kind is not None and not issubclass(kind, ConnectionLostError):
                    self.abort(code_for(kind))
            finally:
                self._transport.close()

    def _leave_stopped(self) -> None:
        """Tell the peer from another thread, while this one computes and cannot."""
        self.abort(ErrorCode.STOPPED)
        self._transport.close()

    def _send(self, message: Message) -> None:
        """Check against the machine, encode, hand over."""
        following = self._following(self.role, message.kind)
        if following is None:
            raise ProtocolError(
                f"{self.role.value}: may not send {message.kind.name} in state {self.state.name}."
            )
        header, payload = codec.encode(message, self._run)
        deadline = self._deadline()
        with whole():
            # Failed until the message is out: an ERROR after half of it would be read as its rest.
            self.state = State.FAILED
            with self._named():
                try:
                    self._transport.send(header, payload, deadline=deadline)
                except ConnectionLostError:
                    self._hear_last_word()
                    raise
            self._longest = max(self._longest, payload.nbytes)
            self._move(message.kind, following)

    def _receive(self, kind: Kind, step: int, shape: Shape | None) -> Message:
        """Wait for exactly this message, and move the machine on."""
        following = self._following(self.role.peer, kind)
        if following is None:
            raise ProtocolError(
                f"{self.role.value}: may not wait for {kind.name} in state {self.state.name}."
            )

        def accept(header: codec.Header) -> None:
            self._accept(header, kind, step, shape)

        try:
            with self._named():
                header, payload = self._transport.receive(accept, deadline=self._deadline())
                message = codec.decode(header, payload)
        except ProtocolError:
            self.abort(ErrorCode.PROTOCOL)
            raise
        if message.kind is Kind.ERROR:
            self._peer_ended(message)
        if message.kind is Kind.BYE and message.fields:
            raise self._refuse("a BYE with fields, where it has none")
        self._move(kind, following)
        return message

    def _hear_last_word(self) -> None:
        """A peer that takes nothing more may have said why, after messages that it sent before.

        Raises:
            PeerEndedError: it has.
        """

        def accept(header: codec.Header) -> None:
            # Its memory is bounded like that of any message of this session.
            if header.kind is Kind.ERROR:
                self._accept(header, header.kind, 0, None)
            elif header.payload_bytes > self._longest:
                raise ProtocolError("Something else came.")

        for _ in range(self._most_in_flight + 1):
            try:
                header, payload = self._transport.receive(accept, deadline=_ARRIVED_SECONDS)
            except (ConnectionLostError, ProtocolError):
                return
            if header.kind is Kind.ERROR:
                self._peer_ended(codec.decode(header, payload))

    def _following(self, sender: Role, kind: Kind) -> State | None:
        """The state after a message, or ``None`` where it may not come now."""
        if kind is Kind.ACTIVATION and self._in_flight >= self._most_in_flight:
            return None
        return TRANSITIONS.get((self.state, sender, kind))

    def _move(self, kind: Kind, following: State) -> None:
        """Go on after a message."""
        self._in_flight += (kind is Kind.ACTIVATION) - (kind is Kind.GRADIENT)
        self.state = State.REPLY_DUE if self._in_flight else following

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say at which party an error of the transport or the codec was met."""
        try:
            yield
        except (ConnectionLostError, ProtocolError) as error:
            named = str(error).startswith((Role.LABEL.value, Role.NON_LABEL.value))
            if not named:
                error.args = (f"{self.role.value}: {error}", *error.args[1:])
            raise

    def _accept(self, header: codec.Header, kind: Kind, step: int, shape: Shape | None) -> None:
        """Refuse every header but the expected one (or a well-formed ERROR)."""
        # Before the terms are compared, another run's name is a difference to name, not a breach.
        if self.state not in _GREETING and header.run_tag != codec.run_tag(self._run):
            raise self._refuse("a message of another run")
        if header.kind is Kind.ERROR:
            form = header.step, header.rows, header.width, header.dtype
            if form != (0, 1, ERROR_WIDTH, torch.uint8):
                raise self._refuse(
                    f"a malformed ERROR: step {header.step}, shape ({header.rows}, {header.width}) "
                    f"of {header.dtype} where step 0, shape (1, {ERROR_WIDTH}) of uint8 was due"
                )
            return
        if header.kind is not kind:
            raise self._refuse(f"{header.kind.name} where {kind.name} was due")
        if header.step != step:
            raise self._refuse(f"{kind.name} of step {header.step} where step {step} was due")
        if header.dtype is not (shape.dtype if shape else None):
            raise self._refuse(
                f"{kind.name} with elements of {header.dtype or 'JSON'} where "
                f"{shape.dtype if shape else 'JSON'} was due"
            )
        if shape and (
            shape.rows not in (None, header.rows) or shape.width not in (None, header.width)
        ):
            raise self._refuse(
                f"{kind.name} of shape ({header.rows}, {header.width}) where "
                f"({shape.rows}, {shape.width}) was due"
            )

    def _peer_ended(self, message: Message) -> None:
        """Turn an ERROR message into an exception."""
        self.state = State.FAILED
        word = bytes(message.tensor.flatten().tolist()) if message.tensor is not None else b""
        try:
            code = ErrorCode(word.decode("ascii", errors="replace").strip())
        except ValueError:
            raise ProtocolError(
                f"{self.role.value}: the {self.role.peer.value} ended the session with an unknown "
                "code."
            ) from None
        raise PeerEndedError(
            f"{self.role.value}: the {self.role.peer.value} ended the session: {code.meaning}.",
            stopped=code is ErrorCode.STOPPED,
        )

    def _refuse(self, what: str) -> ProtocolError:
        """Tell the peer, and make the error that says what it did wrong."""
        self.abort(ErrorCode.PROTOCOL)
        return ProtocolError(f"{self.role.value}: the {self.role.peer.value} sent {what}.")

    def _deadline(self) -> float:
        """How long the current state may last."""
        if self.state is State.LABEL_HELLO:
            return self._deadlines.connect  # a connection may wait in line until the party is free
        handshake = self.state in _HANDSHAKE
        return self._deadlines.handshake if handshake else self._deadlines.step


def code_for(error: type[BaseException]) -> ErrorCode:
    """The word that the peer gets."""
    if issubclass(error, KeyboardInterrupt):
        return ErrorCode.STOPPED
    return ErrorCode.PROTOCOL if issubclass(error, ProtocolError) else ErrorCode.FAILED
