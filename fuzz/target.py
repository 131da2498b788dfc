"""What is fuzzed: a session receives the bytes of an unknown peer.

Only ProtocolError, or the peer's own ending, may come out, and no more memory may be taken than the
negotiated shape needs. Hypothesis and atheris drive the same function.
"""

import struct
import zlib

import torch

from cutlayer.errors import CutlayerError, ProtocolError
from cutlayer.protocol import Kind, Role, Session, Shape, State, codec
from cutlayer.protocol.transport import Transport

RUN, ROWS, WIDTH = "fuzz", 2, 3
_START = codec.encode(codec.Message(Kind.ACTIVATION, 0, torch.zeros(ROWS, WIDTH)), RUN)[0]
_DUE = [
    (State.LABEL_HELLO, Role.NON_LABEL, Kind.HELLO),
    (State.NON_LABEL_HELLO, Role.LABEL, Kind.HELLO),
    (State.LABEL_IDS, Role.NON_LABEL, Kind.IDS),
    (State.LABEL_SPLIT, Role.NON_LABEL, Kind.SPLIT),
    (State.READY, Role.LABEL, Kind.ACTIVATION),
    (State.REPLY_DUE, Role.NON_LABEL, Kind.GRADIENT),
    (State.READY, Role.LABEL, Kind.QUERY),
    (State.QUERYING, Role.LABEL, Kind.BYE),
]


class Once(Transport):
    """Gives one message, as a stream does: the header is accepted before there is a payload."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self.allocated = 0

    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        assert len(header) == codec.HEADER_BYTES
        assert payload.nbytes == 16, "only an ERROR may leave, and it has one size"

    def receive(self, accept, *, deadline):
        header = codec.decode_header(self._data[: codec.HEADER_BYTES])
        accept(header)
        self.allocated = header.payload_bytes
        payload = bytearray(header.payload_bytes)
        rest = self._data[codec.HEADER_BYTES :][: len(payload)]
        payload[: len(rest)] = rest
        return header, payload

    def close(self) -> None:
        pass


def one_input(data: bytes) -> None:
    """Let a session receive these bytes."""
    if len(data) < 3:
        return
    state, role, kind = _DUE[data[0] % len(_DUE)]
    body = bytearray(data[2:])
    if data[1] & 1:  # most headers from nothing are refused at the first bytes: help them along
        head = bytearray(_START[:44])
        for place, value in zip(body[0:8:2], body[1:8:2], strict=False):
            head[place % 44] = value
        body = head + struct.pack("<I", zlib.crc32(head)) + body[8:]
    if data[1] & 2 and len(body) >= codec.HEADER_BYTES:  # JSON of the kind that is due
        text = bytes(body[codec.HEADER_BYTES :])[: codec.MAX_JSON_BYTES]
        head = bytearray(_START[:44])
        head[6], head[7] = kind, 0
        head[24:40] = struct.pack("<IIQ", 1, len(text), len(text))
        body = head + struct.pack("<I", zlib.crc32(head)) + text
    transport = Once(bytes(body))
    session = Session(role, transport, run=RUN)
    session.state = state
    shape = {
        Kind.IDS: Shape(ROWS, 16, torch.uint8),
        Kind.ACTIVATION: Shape(ROWS, WIDTH),
        Kind.GRADIENT: Shape(ROWS, WIDTH),
        Kind.QUERY: Shape(ROWS, WIDTH),
    }.get(kind)
    if kind is Kind.GRADIENT:
        session._in_flight = 1
    try:
        if shape is None:
            session.receive_fields(kind)
        else:
            session.receive_tensor(kind, shape)
    except ProtocolError:
        assert session.state is State.FAILED
    except CutlayerError as error:  # the peer may end the session
        assert type(error).__name__ == "PeerEndedError", error
    most = codec.MAX_JSON_BYTES if shape is None else ROWS * 16
    assert transport.allocated <= most + 4096
