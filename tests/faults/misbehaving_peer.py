"""A peer with one named bug at a time, against a real party with its journal and checkpoints.

The misbehaving party is an honest one whose transport replaces one of its messages. Each bug states
which error the other party must raise, what that error must say, and which word the misbehaving
party is told; whether anything of the other party changed is compared byte for byte.
"""

import json
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from cutlayer.data.tensor_records import TensorRecords
from cutlayer.errors import (
    ConnectionLostError,
    DataError,
    DeadlineError,
    PeerEndedError,
    ProtocolError,
    TermsMismatchError,
)
from cutlayer.models import Top, mlp
from cutlayer.parties import (
    CheckpointStore,
    LabelParty,
    NonLabelParty,
    Persistence,
    ReleaseJournal,
    RunKey,
    Terms,
)
from cutlayer.protections import PROTECTIONS, parse_protection
from cutlayer.protocol import Deadlines, ErrorCode, Kind, Role, Transport
from cutlayer.protocol.codec import run_tag
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.deadline_socket import DeadlineSocket
from cutlayer.protocol.transports.stream import StreamTransport

RUN = "hostile"
RECORDS = 46
LONG, SHORT = 30.0, 1.5
_TENSOR = {Role.NON_LABEL: Kind.ACTIVATION, Role.LABEL: Kind.GRADIENT}
_LAYOUT = struct.Struct("<4sHBB8sQIIQI")
_JSON, _FLOAT, _BFLOAT, _BYTE = 0, 1, 2, 4


@dataclass(frozen=True)
class Frame:
    """One message with every field of its header free to choose."""

    magic: bytes
    version: int
    kind: int
    code: int
    tag: bytes
    step: int
    rows: int
    width: int
    size: int
    flags: int
    payload: bytes
    checksum: int | None = None
    """``None`` is the right one."""

    @classmethod
    def of(cls, header: bytes, payload: bytes) -> "Frame":
        return cls(*_LAYOUT.unpack(header[:44]), payload)

    @property
    def raw(self) -> bytes:
        head = _LAYOUT.pack(
            *(self.magic, self.version, self.kind, self.code, self.tag, self.step),
            *(self.rows, self.width, self.size, self.flags),
        )
        checksum = zlib.crc32(head) if self.checksum is None else self.checksum
        return head + struct.pack("<I", checksum) + self.payload

    def with_payload(self, payload: bytes, **changes: int) -> "Frame":
        return replace(self, payload=payload, size=len(payload), **changes)

    def text(self, text: bytes, kind: int | None = None) -> "Frame":
        """The same as a control message."""
        changes = {"code": _JSON, "rows": 1, "width": len(text)}
        return replace(self.with_payload(text, **changes), kind=kind or self.kind)

    @property
    def fields(self) -> dict:
        return json.loads(self.payload)

    def having(self, **changes: object) -> "Frame":
        """The same control message with other fields."""
        return self.text(json.dumps({**self.fields, **changes}).encode())

    def lacking(self, name: str) -> "Frame":
        return self.text(json.dumps({k: v for k, v in self.fields.items() if k != name}).encode())

    @property
    def tensor(self) -> np.ndarray:
        return np.frombuffer(self.payload, dtype="<f4").reshape(self.rows, self.width).copy()

    def valued(self, value: float) -> "Frame":
        """The same tensor with one element replaced."""
        tensor = self.tensor
        tensor[-1, -1] = value
        return replace(self, payload=tensor.tobytes())

    def shaped(self, rows: int, width: int) -> "Frame":
        """Zeros of another shape."""
        return self.with_payload(bytes(rows * width * 4), rows=rows, width=width)


@dataclass(frozen=True)
class Pause:
    """Silence between two pieces."""

    seconds: float


Act = Callable[[Frame], Iterable["bytes | Pause | None"]]
"""What is sent in place of a message; ``None`` closes the connection."""


@dataclass(frozen=True)
class Bug:
    """One way to misbehave."""

    name: str
    sender: Role
    kind: Kind
    act: Act
    error: type[Exception] | None
    says: str
    told: str | None = "protocol"
    """The word of the ERROR; ``None``: the connection just ends."""
    nth: int = 0
    """Which message of its kind is replaced, from 0."""
    changes: dict[str, object] = field(default_factory=dict)
    """Of the terms of both."""
    patience: float = LONG
    goes_on: str = ""
    """How long it is honest afterwards: ``handshake``, or ``end``."""
    earlier_steps: int = 0
    """Steps of an honest session before, that the misbehaving party then forgets."""

    @property
    def id(self) -> str:
        return f"{self.name} ({self.sender.value})"


def terms(**changes: object) -> Terms:
    settings = {
        "run": RUN,
        "data": "made",
        "protection": "marvell:s=4",
        "epochs": 2,
        "batch_size": 8,
        "cut_width": 4,
        "folds": 3,
        "order": "nonces",
        "checkpoint_every": 2,
        **changes,
    }
    return Terms(**settings)


def records(labels: torch.Tensor | None = None) -> tuple[TensorRecords, TensorRecords]:
    """The records of both parties."""
    generator = torch.Generator().manual_seed(5)
    numbers = torch.randn(RECORDS, 5, generator=generator)
    if labels is None:
        labels = (numbers.sum(1) > 0).long()
    ids = tuple(f"r{i:03d}" for i in range(RECORDS))
    return (
        TensorRecords(Role.LABEL.value, ids, numbers[:, 3:], labels),
        TensorRecords(Role.NON_LABEL.value, ids, numbers[:, :3]),
    )


class Half:
    """What a party computes with, and all of its state that a message could change."""

    def __init__(self, role: Role, folder: Path) -> None:
        self.role, self.folder = role, folder
        self.modules: list[torch.nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.party: LabelParty | NonLabelParty | None = None
        self.protection = parse_protection("marvell:s=4", PROTECTIONS)
        self.persistence: Persistence | None = None

    def make_top(self, name: str, cut_width: int, own) -> torch.nn.Module:
        self.modules.append(
            Top(cut_width, own.width, [4], torch.Generator().manual_seed(len(name)))
        )
        return self.modules[-1]

    def make_bottom(self, own) -> torch.nn.Module:
        self.modules.append(mlp([own.width, 8, 4], torch.Generator().manual_seed(1)))
        return self.modules[-1]

    def adam(self, parameters) -> torch.optim.Optimizer:
        self.optimizers.append(torch.optim.Adam(parameters, lr=0.01))
        return self.optimizers[-1]

    def snapshot(self) -> dict[str, object]:
        """Everything, as bytes."""
        files = {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
        journal = self.persistence.journal if self.persistence else None
        sent = self.party._sent if isinstance(self.party, LabelParty) else None
        return {
            "files": files,
            "released": journal.released if journal else None,
            "sent": (sent.releases, sent.rows) if sent else None,
            "weights": [_bytes(module.state_dict()) for module in self.modules],
            "gradients": [
                [None if p.grad is None else p.grad.numpy().tobytes() for p in module.parameters()]
                for module in self.modules
            ],
            "optimizers": [
                _bytes(
                    {
                        f"{index}.{key}": value
                        for index, kept in one.state_dict()["state"].items()
                        for key, value in kept.items()
                    }
                )
                for one in self.optimizers
            ],
            "protection": _bytes(self.protection.state()),
        }


def _bytes(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {name: torch.as_tensor(value).numpy().tobytes() for name, value in tensors.items()}


class Watched(Transport):
    """Notes the state of a party each time that it begins to wait for a message."""

    def __init__(self, inner: Transport, half: Half) -> None:
        super().__init__()
        self._inner, self._half = inner, half
        self.states: list[dict[str, object]] = []

    def send(self, header, payload, *, deadline):
        self._inner.send(header, payload, deadline=deadline)

    def receive(self, accept, *, deadline):
        self.states.append(self._half.snapshot())
        return self._inner.receive(accept, deadline=deadline)

    def close(self):
        self._inner.close()


class _ActedError(ConnectionLostError):
    """Ends the honest code of the misbehaving party."""


class Ear:
    """A byte channel that keeps what arrives, once it is told to."""

    def __init__(self, channel: DeadlineSocket) -> None:
        self.heard = bytearray()
        self.listening = False
        self._channel = channel
        self.send_all, self.finish, self.cut = channel.send_all, channel.finish, channel.cut

    def receive_into(self, view: memoryview, clock: Clock) -> int:
        count = self._channel.receive_into(view, clock)
        if self.listening:
            self.heard += view[:count]
        return count


class Misbehaving(Transport):
    """Replaces one message by what a bug sends; keeps all that comes back."""

    def __init__(self, channel: Ear, bug: Bug | None, stop_after: int = -1) -> None:
        super().__init__()
        self._channel, self._inner = channel, StreamTransport(channel, "")
        self._bug, self._seen, self._stop_after = bug, 0, stop_after

    def send(self, header, payload, *, deadline):
        frame, bug = Frame.of(header, bytes(payload)), self._bug
        if (
            self._channel.listening
            and bug
            and bug.goes_on != "end"
            and frame.kind in _TENSOR.values()
        ):
            raise _ActedError
        if bug is None or frame.kind != bug.kind:
            if frame.kind == Kind.ACTIVATION and frame.step == self._stop_after:
                self._inner.close()
                raise _ActedError
            self._inner.send(header, payload, deadline=deadline)
            return
        self._seen += 1
        if self._seen != bug.nth + 1:
            self._inner.send(header, payload, deadline=deadline)
            return
        self._channel.listening = True
        for piece in bug.act(frame):
            if isinstance(piece, Pause):
                time.sleep(piece.seconds)
            elif piece is None:
                self._inner.close()
            else:
                try:
                    self._channel.send_all(memoryview(piece), Clock(LONG, "room"))
                except ConnectionLostError:
                    break  # it has been cut off already
        if not bug.goes_on:
            raise _ActedError

    def receive(self, accept, *, deadline):
        return self._inner.receive(accept, deadline=deadline)

    def close(self):
        pass  # it goes on listening

    def listen(self) -> None:
        """Keep all bytes that still come, until the other side has closed."""
        data = bytearray(1 << 16)
        try:
            while self._channel.receive_into(memoryview(data), Clock(LONG, "the end")):
                pass
        except ConnectionLostError:
            pass
        self._inner.close()


@dataclass(frozen=True)
class Played:
    """How a session with a bug ended."""

    error: BaseException | None
    before: dict[str, object]
    after: dict[str, object]
    heard: bytes
    """What the misbehaving party received after it had misbehaved."""
    states: list[dict[str, object]]

    @property
    def error_frame(self) -> bytes:
        """The ERROR with which it ends; empty if there is none."""
        tail = self.heard[-64:]
        return tail if tail[:4] == b"CUTL" and tail[6] == Kind.ERROR else b""


def connected() -> tuple[DeadlineSocket, DeadlineSocket]:
    """Both ends of a TCP connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    return DeadlineSocket(here), DeadlineSocket(there)


_SECRET = {Role.LABEL: bytes(range(32)), Role.NON_LABEL: bytes(range(1, 33))}


def _persistence(role: Role, folder: Path) -> Persistence:
    journal = ReleaseJournal(folder / "journal", "marvell") if role is Role.LABEL else None
    store = CheckpointStore(folder / "checkpoints")
    return Persistence(folder, RunKey(_SECRET[role]), store, journal)


def build(
    half: Half, labels: torch.Tensor | None, bug: Bug | None, *, deadline: float
) -> LabelParty | NonLabelParty:
    """A party of this half, from where its folder stands."""
    role, changes = half.role, bug.changes if bug else {}
    half.persistence = _persistence(role, half.folder)
    deadlines = Deadlines(connect=LONG, handshake=LONG, step=deadline)
    own = records(labels)[0 if role is Role.LABEL else 1]
    common = {"persistence": half.persistence, "deadlines": deadlines, "max_ids": 1000}
    if role is Role.LABEL:
        noise = half.persistence.key.noise()
        half.party = LabelParty(
            *(own, terms(**changes), half.protection, half.make_top, half.adam),
            noise=noise,
            **common,
        )
    else:
        half.party = NonLabelParty(own, terms(**changes), half.make_bottom, half.adam, **common)
    return half.party


def play(bug: Bug | None, folder: Path, labels: torch.Tensor | None = None) -> Played:
    """One session of a sound party with a misbehaving one; an honest session before if asked."""
    sound = Half(Role.NON_LABEL if bug and bug.sender is Role.LABEL else Role.LABEL, folder / "own")
    if bug is not None and bug.earlier_steps:
        _session(sound, None, folder / "first", labels, stop_after=bug.earlier_steps)
        assert sound.persistence is not None
        if sound.persistence.journal is not None:
            assert sound.persistence.journal.released == bug.earlier_steps
        sound.persistence.close()
        sound = Half(sound.role, sound.folder)
    return _session(sound, bug, folder / "peer", labels)


def _session(
    sound: Half, bug: Bug | None, folder: Path, labels: torch.Tensor | None, stop_after: int = -1
) -> Played:
    here, there = connected()
    ear = Ear(there)
    misbehaving = Misbehaving(ear, bug, stop_after)
    other = Half(sound.role.peer, folder)
    their_party = build(other, labels, bug, deadline=LONG)
    own_party = build(sound, labels, bug, deadline=bug.patience if bug else LONG)
    watched = Watched(StreamTransport(here, "a test"), sound)

    def misbehave() -> None:
        try:
            their_party.run(misbehaving)
        except ConnectionLostError:
            pass
        finally:
            misbehaving.listen()
            assert other.persistence is not None
            other.persistence.close()

    thread = threading.Thread(target=misbehave)
    thread.start()
    error: BaseException | None = None
    try:
        own_party.run(watched)
    except BaseException as raised:  # noqa: BLE001  a raw traceback is a finding
        error = raised
    after = sound.snapshot()
    assert sound.persistence is not None
    sound.persistence.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert bug is None or ear.listening, "the bug never acted"
    return Played(error, watched.states[-1], after, bytes(ear.heard), watched.states)


L, N = Role.LABEL, Role.NON_LABEL


def _one(change: Callable[[Frame], Frame]) -> Act:
    """An act that sends one changed message."""
    return lambda frame: [change(frame).raw]


def _bugs_of_a_tensor() -> list[Bug]:
    """In the second activation or gradient."""
    bugs: list[Bug] = []

    def add(name: str, act: Act, says: str, error=ProtocolError, told="protocol", **more) -> None:
        for role in Role:
            kind = _TENSOR[role]
            text = says.replace("KIND", kind.name)
            bugs.append(Bug(name, role, kind, act, error, text, told, nth=1, **more))

    def header(name: str, says: str, **changes: object) -> None:
        add(name, _one(lambda frame: replace(frame, **changes)), says)

    header("WrongMagic", "first bytes are not 'CUTL'", magic=b"HTTP")
    header("NextVersion", r"protocol version 3, this party 2", version=3)
    header("EarlierVersion", r"protocol version 1, this party 2", version=1)
    header("VersionZero", r"protocol version 0, this party 2", version=0)
    header("UnknownKind", "Unknown message kind 99", kind=99)
    header("KindZero", "Unknown message kind 0", kind=0)
    header("UnknownElementType", "Unknown element type 9", code=9)
    header("AnnouncedAsJson", "A payload of 128 bytes for 8 rows", code=_JSON)
    header("FlagSet", "Flags must be 0, got 1", flags=1)
    header("HighFlagSet", "Flags must be 0, got 2147483648", flags=1 << 31)
    header("WrongChecksum", "checksum of a header is wrong", checksum=1)
    header("OtherRun", "sent a message of another run", tag=run_tag("other"))
    header("StepGap", "KIND of step 2 where step 1 was due", step=2)
    header("StepReplay", "KIND of step 0 where step 1 was due", step=0)
    header("StepHuge", f"KIND of step {2**64 - 1} where step 1", step=2**64 - 1)
    for name, size in (("2to32Minus1", 2**32 - 1), ("2to63", 2**63), ("Zero", 0)):
        header(f"Length{name}", f"A payload of {size} bytes for 8 rows of width 4", size=size)
    header("LengthPlusOne", "A payload of 129 bytes for 8 rows", size=129)
    header("LengthMinusOne", "A payload of 127 bytes for 8 rows", size=127)
    header("RowsPlusOneOnly", "A payload of 128 bytes for 9 rows", rows=9)
    header("WidthPlusOneOnly", "A payload of 128 bytes for 8 rows of width 5", width=5)
    header(
        "ConsistentTwoGibibytes",
        r"KIND of shape \(134217728, 4\) where \(8, 4\) was due",
        rows=1 << 27,
        size=1 << 31,
    )
    header("ConsistentFourGibibytes", "A payload of 4294967296 bytes", rows=1 << 28, size=1 << 32)
    for name, rows, width in (
        ("OneRowMore", 9, 4),
        ("OneRowLess", 7, 4),
        ("NoRows", 0, 4),
        ("OneColumnMore", 8, 5),
        ("NoColumns", 8, 0),
        ("Transposed", 4, 8),
        ("BatchOfOne", 1, 4),
    ):
        add(
            name,
            lambda frame, rows=rows, width=width: [frame.shaped(rows, width).raw],
            rf"KIND of shape \({rows}, {width}\) where \(8, 4\) was due",
        )
    add(
        "OtherElementType",
        _one(lambda f: f.with_payload(f.payload[:64], code=_BFLOAT)),
        "KIND with elements of torch.bfloat16 where torch.float32 was due",
    )
    add(
        "BytesInPlaceOfNumbers",
        _one(lambda f: f.with_payload(f.payload[:32], code=_BYTE)),
        "KIND with elements of torch.uint8 where torch.float32 was due",
    )
    add("JsonInPlaceOfNumbers", _one(lambda f: f.text(b"{}")), "KIND with elements of JSON where")
    for name, value in (("NaN", np.nan), ("PlusInfinity", np.inf), ("MinusInfinity", -np.inf)):
        add(name, _one(lambda f, value=value: f.valued(value)), "not finite .*in 1 of 8 rows")
    for name, value in (("1e38", 1e38), ("JustTooLarge", np.nextafter(np.float32(1e6), np.inf))):
        add(name, _one(lambda f, value=value: f.valued(value)), r"values beyond 1e\+06")
    add("Twice", lambda f: [f.raw, f.raw], "KIND of step 1 where step 2 was due")
    add(
        "Reordered",
        lambda f: [replace(f, step=2).raw, f.raw],
        "KIND of step 2 where step 1 was due",
    )
    add("ByeEarly", _one(lambda f: replace(f.text(b"{}", Kind.BYE), step=0)), "BYE where KIND")
    add("HelloAgain", _one(lambda f: replace(f.text(b"{}", Kind.HELLO), step=0)), "HELLO where")
    add("IdsAgain", _one(lambda f: replace(f, kind=Kind.IDS)), "IDS where KIND was due")
    add("PointsInTraining", _one(lambda f: replace(f, kind=Kind.POINTS)), "POINTS where KIND")
    add("OwnKindMirrored", _one(_mirrored), "(GRADIENT|ACTIVATION) where KIND was due")
    add("Tls", lambda f: [bytes([22, 3, 1, 2, 0]) + bytes(64)], "first bytes are not 'CUTL'")
    add("Http2", lambda f: [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(48)], "not 'CUTL'")
    error = _error_frame(b"protocol")
    add(
        "ErrorTooLong",
        _one(lambda f: f.with_payload(bytes(17), code=_BYTE, rows=1, width=17, kind=8, step=0)),
        r"a malformed ERROR: step 0, shape \(1, 17\)",
    )
    add("ErrorAsJson", _one(lambda f: replace(f.text(b"{}", 8), step=0)), "a malformed ERROR")
    add("ErrorOfAStep", lambda f: [error(f, step=1).raw], "a malformed ERROR: step 1")
    add(
        "ErrorUnknownWord",
        lambda f: [_error_frame(b"label=1")(f).raw],
        "ended the session with an unknown code",
        told=None,
    )
    for code in ErrorCode:
        add(
            f"Error{code.name.title()}",
            lambda f, code=code: [_error_frame(code.value.encode())(f).raw],
            f"ended the session: {re.escape(code.meaning)}",
            PeerEndedError,
            None,
        )
    for name, kept in (("InHeader", 20), ("AfterHeader", 48), ("InPayload", 100)):
        add(
            f"Closes{name}",
            lambda f, kept=kept: [f.raw[:kept], None],
            "closed the connection in the middle of a run",
            ConnectionLostError,
            None,
        )
    add("ClosesSilently", lambda f: [None], "closed the connection", ConnectionLostError, None)
    silent = {"error": DeadlineError, "told": None, "patience": SHORT}
    add("Silent", lambda f: [], f"Waited {SHORT:g} s for a message of the peer", **silent)
    add("SilentInPayload", lambda f: [f.raw[:60]], f"Waited {SHORT:g} s", **silent)
    add("Drips", _drip, f"Waited {SHORT:g} s", **silent)
    return bugs


def _mirrored(frame: Frame) -> Frame:
    kind = Kind.ACTIVATION if frame.kind == Kind.GRADIENT else Kind.GRADIENT
    return replace(frame, kind=kind)


def _error_frame(word: bytes):
    def made(frame: Frame, step: int = 0) -> Frame:
        changes = {"code": _BYTE, "rows": 1, "width": 16, "kind": int(Kind.ERROR), "step": step}
        return frame.with_payload(word.ljust(16), **changes)

    return made


def _drip(frame: Frame) -> Iterable[bytes | Pause]:
    for byte in frame.raw[:30]:
        yield bytes([byte])
        yield Pause(2 * SHORT / 30)


def _bugs_of_a_query() -> list[Bug]:
    def bug(name: str, act: Act, says: str, **more) -> Bug:
        return Bug(name, N, more.pop("kind", Kind.QUERY), act, ProtocolError, says, **more)

    return [
        bug(
            "QueryEarly",
            _one(lambda f: replace(f, kind=Kind.QUERY)),
            "QUERY where ACTIVATION was due",
            kind=Kind.ACTIVATION,
            nth=2,
        ),
        bug(
            "QueryBeforeTheDrain",
            _one(lambda f: replace(f, kind=Kind.QUERY, step=0)),
            "QUERY where ACTIVATION was due",
            kind=Kind.ACTIVATION,
            nth=4,
            changes={"staleness": 2},
        ),
        bug("QueryOneRowMore", _one(lambda f: f.shaped(f.rows + 1, 4)), "QUERY of shape"),
        bug("QueryNaN", _one(lambda f: f.valued(np.nan)), "not finite"),
        bug("QueryOfAnotherStep", _one(lambda f: replace(f, step=1)), "QUERY of step 1 where"),
        bug("ByeBeforeQuery", _one(lambda f: f.text(b"{}", Kind.BYE)), "BYE where QUERY was due"),
        bug("FrozenInALoop", _one(lambda f: replace(f, kind=Kind.FROZEN)), "FROZEN where QUERY"),
        bug("QueryTwice", lambda f: [f.raw, f.raw], "QUERY where BYE was due"),
    ]


def _bugs_of_hello() -> list[Bug]:
    bugs: list[Bug] = []

    def add(name: str, change: Callable[[Frame], Frame], says: str, error=ProtocolError, **more):
        roles = more.pop("roles", Role)
        bugs.extend(Bug(name, r, Kind.HELLO, _one(change), error, says, **more) for r in roles)

    def field_bug(name: str, value: object, rule: str, **more: object) -> None:
        add(
            f"Hello {name}={value!r}"
            if len(repr(value)) < 30
            else f"Hello {name} {len(repr(value))}",
            lambda f: f.having(**{name: value}),
            f"the HELLO of the .* is malformed: {name} must be {rule}",
            **more,
        )

    for name, own in terms().as_fields().items():
        for what, value in (("Changed", _one_bit_off(own)), ("Mistyped", [own])):
            if what == "Mistyped":
                says, error, told = "not one flat JSON object", ProtocolError, "protocol"
            else:
                says = f"{name} is {re.escape(repr(own))} here and {re.escape(repr(value))} at the"
                error, told = TermsMismatchError, "terms"
            add(
                f"Hello{what} {name}",
                lambda f, name=name, value=value: f.having(**{name: value}),
                says,
                error,
                told=told,
            )
        add(
            f"HelloLacks {name}",
            lambda f, name=name: f.lacking(name),
            f"{name} is .* here and missing at the",
            TermsMismatchError,
            told="terms",
        )
    for name, value in (
        ("folds", 4.5),
        ("grouped", 0),
        ("staleness", False),
        ("micro_batches", True),
    ):
        add(
            f"HelloOtherType {name}",
            lambda f, name=name, value=value: f.having(**{name: value}),
            f"{name} is .* here and {value} at the",
            TermsMismatchError,
            told="terms",
        )
    said = ("role", "records", "nonce", "checkpoints", "released", "order_word", "cutlayer")
    for name in (*said, "clock", "feature_copy"):
        add(
            f"HelloLacks {name}",
            lambda f, name=name: f.lacking(name),
            f"the HELLO of the .* is malformed: {name} is missing",
        )
    field_bug("role", "operator", "'(non-)?label party'")
    for value in (0, -1, True, 1.5, "40", None, 2**70):
        field_bug("records", value, "a whole number from 1")
    for value in ("", "0" * 63, "0" * 65, "A" * 64, 7):
        field_bug("nonce", value, "32 bytes in hexadecimal digits")
        field_bug("order_word", value, "32 bytes in hexadecimal digits")
    for value in ("x", "-1", "1 1", "2 1", "01", "1  2", " 1", "9" * 20, "1,2", "²", 0, None):
        field_bug("checkpoints", value, "rising steps")
    for value in (-1, False, "0", 1e300):
        field_bug("released", value, "(a whole number from )?0")
    field_bug("released", 3, "0", roles=[N])
    for value in ("\x1b[2J", "1.0\nlabel party: all is well", "v" * 41, "", 1):
        field_bug("cutlayer", value, "a version")
    for value in (-1, 1.5, "now"):
        field_bug("clock", value, "a whole number")
    for value in (0, "true", None):
        field_bug("feature_copy", value, "(true or )?false")
    field_bug("feature_copy", True, "false", roles=[L])
    add("HelloUnknownField", lambda f: f.having(labels="1"), "malformed: 'labels' is no field")
    add(
        "HelloTooManyRecords",
        lambda f: f.having(records=1001),
        "announces 1,001 records, more than the 1,000 that this party allows",
        TermsMismatchError,
        told="terms",
    )
    add(
        "HelloCheckpointBeyondTheJournal",
        lambda f: f.having(checkpoints="0 5"),
        "a state after step 5, but the journal of the label party knows of 0",
        DataError,
        told="failed",
        goes_on="handshake",
    )
    add(
        "HelloNoCommonCheckpoint",
        lambda f: f.having(checkpoints=""),
        "no state in common to go on from: after steps 0 here, none at the",
        DataError,
        told="failed",
        goes_on="handshake",
    )
    json_bugs: list[tuple[str, bytes, str]] = [
        ("Empty", b"", "is not JSON"),
        ("Text", b"hello", "is not JSON"),
        ("Truncated", b'{"run": "hos', "is not JSON"),
        ("NotUtf8", b'{"run": "\xff\xfe"}', "is not JSON"),
        ("NullBytes", bytes(100), "is not JSON"),
        ("List", b"[1, 2]", "not one flat JSON object"),
        ("Nested", b'{"run": {"run": "hostile"}}', "not one flat JSON object"),
        ("DeeplyNested", b"[" * 4000, "is not JSON"),
        ("DeeplyNestedObjects", b'{"a":' * 800, "is not JSON"),
        ("RepeatedField", b'{"run": "hostile", "run": "other"}', "names a field twice"),
        ("NotANumber", b'{"seed": NaN}', "is not JSON"),
        ("Infinity", b'{"seed": -Infinity}', "is not JSON"),
        ("Overflowing", b'{"seed": 1e999}', "not one flat JSON object"),
        ("ManyDigits", b'{"run": ' + b"9" * 4000 + b"}", "run is 'hostile' here and 9"),
    ]
    for name, text, says in json_bugs:
        many = name == "ManyDigits"
        add(
            f"HelloJson{name}",
            lambda f, text=text: f.text(text),
            says,
            TermsMismatchError if many else ProtocolError,
            told="terms" if many else "protocol",
        )
    add(
        "HelloTooLong",
        lambda f: f.text(b'{"run": "' + b"x" * 4090 + b'"}'),
        "A payload of 4101 bytes",
    )
    add("HelloOfAStep", lambda f: replace(f, step=1), "HELLO of step 1 where step 0 was due")
    add("HelloAsTensor", lambda f: replace(f, code=_BYTE), "HELLO with elements of torch.uint8")
    add("HelloIsSplit", lambda f: replace(f, kind=Kind.SPLIT), "SPLIT where HELLO was due")
    return bugs


def _one_bit_off(value: object) -> object:
    """The nearest other value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, float):
        return float(np.nextafter(value, 1))
    text = str(value)
    return chr(ord(text[0]) ^ 1) + text[1:]


def _bugs_of_ids_and_split() -> list[Bug]:
    bugs: list[Bug] = []

    def add(name, kind, change, says, error=ProtocolError, **more) -> None:
        roles = more.pop("roles", Role)
        bugs.extend(Bug(name, r, kind, _one(change), error, says, **more) for r in roles)

    ids = Kind.IDS
    for name, rows in (("More", RECORDS + 1), ("Less", RECORDS - 1), ("None", 0)):
        add(
            f"Ids{name}",
            ids,
            lambda f, rows=rows: f.with_payload(bytes(16 * rows), rows=rows),
            rf"IDS of shape \({rows}, 16\) where \({RECORDS}, 16\) was due",
        )
    add(
        "IdsShort",
        ids,
        lambda f: f.with_payload(f.payload[: 15 * RECORDS], width=15),
        rf"IDS of shape \({RECORDS}, 15\)",
    )
    add(
        "IdsRepeated",
        ids,
        lambda f: f.with_payload(f.payload[:16] + f.payload[:-16]),
        "party: The peer sent 1 id digests twice",
    )
    add(
        "IdsOfNobody",
        ids,
        lambda f: f.with_payload(
            b"".join(sha256(bytes([i])).digest()[:16] for i in range(RECORDS))
        ),
        f"party: None of this party's {RECORDS} ids is among the peer's {RECORDS}",
        DataError,
        told="failed",
    )
    add(
        "IdsAsNumbers",
        ids,
        lambda f: replace(f.shaped(RECORDS, 16), code=_FLOAT),
        "IDS with elements of torch.float32",
    )
    split = Kind.SPLIT
    add(
        "SplitOther",
        split,
        lambda f: f.having(split="0" * 64),
        "the parties split their records differently",
        TermsMismatchError,
        told="terms",
    )
    add("SplitLacksHash", split, lambda f: f.lacking("split"), "fields must be split and order_n")
    add("SplitMore", split, lambda f: f.having(labels=1), "SPLIT of the .* is malformed: its f")
    add(
        "SplitTerminalCodes",
        split,
        lambda f: f.having(**{"\x1b[2Jlabel party: all is well\n": 1}),
        "SPLIT of the .* is malformed: its fields",
    )
    add("SplitMistyped", split, lambda f: f.having(split=7), "malformed: split must be a hash")
    add(
        "OrderNonceAnother",
        split,
        lambda f: f.having(order_nonce="0" * 64),
        "half of the batch order is not the one that it committed to",
        roles=[L],
    )
    for value in (None, "", "0" * 62, 5):
        add(
            f"OrderNonce {value!r}",
            split,
            lambda f, value=value: f.having(order_nonce=value),
            "malformed: order_nonce must be 32 bytes",
            roles=[L],
        )
    add(
        "OrderNonceOfTheWrongParty",
        split,
        lambda f: f.having(order_nonce="0" * 64),
        "malformed: order_nonce must be null",
        roles=[N],
    )
    add("IdsAfterSplit", split, lambda f: replace(f, kind=ids), "IDS where SPLIT was due")
    return bugs


def _bugs_after_a_reconnect() -> list[Bug]:
    return [
        Bug(
            "OtherActivationForAnAnsweredStep",
            N,
            Kind.ACTIVATION,
            _one(lambda f: f.valued(0.25)),
            ProtocolError,
            "label party: step 0 was answered before, and the non-label party now sends another",
            earlier_steps=3,
        ),
        Bug(
            "OneUnitInTheLastPlaceForAnAnsweredStep",
            N,
            Kind.ACTIVATION,
            _one(lambda f: f.valued(float(np.nextafter(f.tensor[-1, -1], np.float32(9))))),
            ProtocolError,
            "label party: step 1 was answered before",
            nth=1,
            earlier_steps=3,
        ),
        Bug(
            "OtherOrderAfterReconnect",
            N,
            Kind.HELLO,
            _one(lambda f: f.having(order_word="0" * 64)),
            TermsMismatchError,
            "the non-label party brings another half of the batch order than when this run began",
            told="terms",
            goes_on="handshake",
            earlier_steps=3,
        ),
        Bug(
            "CheckpointBeyondTheJournalAfterReconnect",
            N,
            Kind.HELLO,
            _one(lambda f: f.having(checkpoints="0 4")),
            DataError,
            "a state after step 4, but the journal of the label party knows of 3",
            told="failed",
            goes_on="handshake",
            earlier_steps=3,
        ),
    ]


def _harmless() -> list[Bug]:
    """What looks odd and is allowed: nothing is gained by it, so nothing is refused."""
    harmless = []
    for name, value in (("MinusZero", -0.0), ("Denormal", 1e-42), ("TheBoundItself", 1e6)):
        for role in Role:
            act = _one(lambda f, value=value: f.valued(value))
            harmless.append(
                Bug(name, role, _TENSOR[role], act, None, "", None, nth=1, goes_on="end")
            )
    for role in Role:
        act = _after_bye
        harmless.append(Bug("TalksAfterBye", role, Kind.BYE, act, None, "", None))
    return harmless


def _after_bye(frame: Frame) -> Iterable[bytes | None]:
    return [frame.raw, frame.raw, bytes(1000), None]


BUGS = [
    *_bugs_of_a_tensor(),
    *_bugs_of_a_query(),
    *_bugs_of_hello(),
    *_bugs_of_ids_and_split(),
    *_bugs_after_a_reconnect(),
]
HARMLESS = _harmless()
AHEAD = Bug(
    "TwoActivationsWithoutWaiting",
    N,
    Kind.ACTIVATION,
    lambda f: [f.raw, replace(f, step=f.step + 1).raw, None],
    ConnectionLostError,
    "closed the connection",
    None,
    nth=1,
)
"""With staleness 0. The label party cannot tell it from a fast peer, and answers one by one."""
