"""The wire format: a fixed 48-byte header, then raw little-endian bytes.

===========  ======  ===================================================================
bytes        type    meaning
===========  ======  ===================================================================
0-3          4s      ``CUTL``
4-5          uint16  protocol version
6            uint8   :class:`~cutlayer.protocol.messages.Kind`
7            uint8   element type of the payload; 0 for JSON
8-15         8s      run tag: first bytes of the hash of the run's name
16-23        uint64  step
24-27        uint32  rows
28-31        uint32  width: elements of a row; for JSON, rows is 1 and width its bytes
32-39        uint64  payload bytes; must equal rows * width * element size
40-43        uint32  flags; must be 0
44-47        uint32  CRC-32 of bytes 0-43
===========  ======  ===================================================================

Nothing describes itself and nothing is evaluated: the receiver knows beforehand which kind,
element type and shape may come, and refuses a header before it allocates a byte for its payload.
"""

import hashlib
import json
import math
import struct
import sys
import zlib
from dataclasses import dataclass

import numpy as np
import torch

from cutlayer.errors import ProtocolError
from cutlayer.protocol.messages import JsonScalar, Kind, Message

PROTOCOL_VERSION = 2
"""Goes up with every change to what a message holds; 2 since HELLO says ``feature_copy``."""
HEADER_BYTES = 48
MAX_JSON_BYTES = 4096
MAX_PAYLOAD_BYTES = 1 << 31

_LAYOUT = struct.Struct("<4sHBB8sQIIQII")
_MAGIC = b"CUTL"
_JSON = 0
_ELEMENT: dict[int, torch.dtype] = {
    1: torch.float32,
    2: torch.bfloat16,
    3: torch.float16,
    4: torch.uint8,
}
_ELEMENT_CODE = {dtype: code for code, dtype in _ELEMENT.items()}


@dataclass(frozen=True)
class Header:
    """A header that passed every check which needs no knowledge of the session."""

    kind: Kind
    dtype: torch.dtype | None
    """``None`` for JSON."""
    run_tag: bytes
    step: int
    rows: int
    width: int
    payload_bytes: int


def run_tag(run: str) -> bytes:
    """The eight bytes that tie a message to its run."""
    return hashlib.sha256(run.encode()).digest()[:8]


def encode(message: Message, run: str) -> tuple[bytes, memoryview]:
    """Turn a message into header and payload; the payload shares the tensor's memory.

    Raises:
        ValueError: an element type without a code, a tensor that is not two-dimensional, or
            JSON fields of more than 4 KiB.
    """
    if message.tensor is None:
        text = json.dumps(message.fields, sort_keys=True, allow_nan=False).encode()
        if len(text) > MAX_JSON_BYTES:
            raise ValueError(f"fields must fit in {MAX_JSON_BYTES} bytes, got {len(text)}.")
        code, rows, width, payload = _JSON, 1, len(text), memoryview(text)
    else:
        tensor = message.tensor.detach().cpu().contiguous()
        if tensor.dtype not in _ELEMENT_CODE or tensor.ndim != 2:
            raise ValueError(
                f"tensor must be (rows, width) of float32, bfloat16, float16 or uint8, got "
                f"{tuple(tensor.shape)} of {tensor.dtype}."
            )
        code, (rows, width) = _ELEMENT_CODE[tensor.dtype], tensor.shape
        raw = _little_endian(tensor.view(torch.uint8).numpy(), tensor.dtype)
        payload = raw.data.cast("B") if raw.nbytes else memoryview(b"")
    head = _LAYOUT.pack(
        _MAGIC,
        PROTOCOL_VERSION,
        message.kind,
        code,
        run_tag(run),
        message.step,
        rows,
        width,
        payload.nbytes,
        0,
        0,
    )
    return head[:44] + struct.pack("<I", zlib.crc32(head[:44])), payload


def decode_header(data: bytes | bytearray | memoryview) -> Header:
    """Read and check a header. Allocates nothing that the header asks for.

    Raises:
        ProtocolError: any field breaks the format.
    """
    if len(data) != HEADER_BYTES:
        raise ProtocolError(f"A header has {HEADER_BYTES} bytes, got {len(data)}.")
    magic, version, kind, code, tag, step, rows, width, size, flags, checksum = _LAYOUT.unpack(data)
    if magic != _MAGIC:
        raise ProtocolError("The peer does not speak cutlayer: the first bytes are not 'CUTL'.")
    if version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"The peer speaks protocol version {version}, this party {PROTOCOL_VERSION}: install "
            "the same version of cutlayer at both parties."
        )
    if checksum != zlib.crc32(bytes(data[:44])):
        raise ProtocolError("The checksum of a header is wrong.")
    if kind not in Kind.__members__.values():
        raise ProtocolError(f"Unknown message kind {kind}.")
    if flags:
        raise ProtocolError(f"Flags must be 0, got {flags}.")
    if code != _JSON and code not in _ELEMENT:
        raise ProtocolError(f"Unknown element type {code}.")
    limit = MAX_JSON_BYTES if code == _JSON else MAX_PAYLOAD_BYTES
    element = 1 if code == _JSON else _ELEMENT[code].itemsize
    if size != rows * width * element or size > limit or (code == _JSON and rows != 1):
        raise ProtocolError(f"A payload of {size} bytes for {rows} rows of width {width}.")
    return Header(Kind(kind), _ELEMENT.get(code), tag, step, rows, width, size)


def decode(header: Header, payload: bytearray) -> Message:
    """Turn a checked header and its payload into a message.

    The tensor shares the payload's memory, so the caller must own ``payload`` and not reuse it.

    Raises:
        ProtocolError: the payload has another length, or is not a flat JSON object.
    """
    if len(payload) != header.payload_bytes:
        raise ProtocolError(
            f"A payload of {len(payload)} bytes where {header.payload_bytes} were announced."
        )
    if header.dtype is None:
        return Message(header.kind, header.step, fields=_flat_json(payload))
    if not payload:
        tensor = torch.empty(header.rows, header.width, dtype=header.dtype)
    else:
        raw = _little_endian(np.frombuffer(payload, dtype=np.uint8), header.dtype)
        tensor = torch.from_numpy(raw).view(header.dtype).reshape(header.rows, header.width)
    return Message(header.kind, header.step, tensor=tensor)


def _flat_json(payload: bytearray) -> dict[str, JsonScalar]:
    """Parse one JSON object of scalars; anything else is the peer's mistake."""
    try:
        fields = json.loads(
            payload.decode("utf-8", errors="strict"),
            object_pairs_hook=_without_repeats,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError("A control message is not JSON.") from error
    if not isinstance(fields, dict) or not all(_is_scalar(value) for value in fields.values()):
        raise ProtocolError("A control message is not one flat JSON object.")
    return fields


def _without_repeats(pairs: list[tuple[str, JsonScalar]]) -> dict[str, JsonScalar]:
    """The object of these pairs; with a repeated name two readers could read two things."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ProtocolError("A control message names a field twice.")
    return fields


def _no_number(word: str) -> JsonScalar:
    """NaN and Infinity are no JSON, though Python reads them."""
    raise ValueError(word)


def _is_scalar(value: object) -> bool:
    """Whether this may be a field; a number too large for a float64 was read as infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, int))


def _little_endian(
    raw: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]", dtype: torch.dtype
) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    """Swap the bytes of each element on a big-endian machine; free on all others."""
    if sys.byteorder == "little" or dtype.itemsize == 1:
        return raw
    return np.ascontiguousarray(raw.reshape(-1, dtype.itemsize)[:, ::-1]).reshape(raw.shape)
