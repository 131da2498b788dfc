import json
import struct
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.errors import ProtocolError
from cutlayer.protocol import codec
from cutlayer.protocol.messages import Kind, Message


def frame(message: Message, run: str = "run") -> bytes:
    header, payload = codec.encode(message, run)
    return header + bytes(payload)


def sealed(head: bytes) -> bytes:
    """Give 44 header bytes the checksum that belongs to them."""
    return head + struct.pack("<I", zlib.crc32(head))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.uint8])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 0), (0, 4)])
def test_tensors_survive_the_wire_bit_for_bit(dtype, shape):
    tensor = (torch.arange(shape[0] * shape[1]).reshape(shape) * 0.37).to(dtype)
    header, payload = codec.encode(Message(Kind.ACTIVATION, 7, tensor), "run")
    decoded = codec.decode(codec.decode_header(header), bytearray(payload))
    assert decoded.tensor is not None
    assert decoded.tensor.dtype == dtype
    assert decoded.step == 7
    assert torch.equal(decoded.tensor.view(torch.uint8), tensor.contiguous().view(torch.uint8))


def test_layout_written_by_hand():
    # One row (1.0, -2.0) of float32, step 258, built here field by field from the documented table.
    tensor = torch.tensor([[1.0, -2.0]])
    data = frame(Message(Kind.GRADIENT, 258, tensor), "a run")
    head = (
        b"CUTL"
        + (2).to_bytes(2, "little")
        + bytes([4, 1])
        + codec.run_tag("a run")
        + (258).to_bytes(8, "little")
        + (1).to_bytes(4, "little")
        + (2).to_bytes(4, "little")
        + (8).to_bytes(8, "little")
        + bytes(4)
    )
    assert data == sealed(head) + bytes.fromhex("0000803f000000c0")


def test_fields_survive_the_wire():
    fields = {"epochs": 3, "name": "é", "share": 0.25, "none": None, "yes": True}
    header, payload = codec.encode(Message(Kind.HELLO, fields=fields), "run")
    assert codec.decode(codec.decode_header(header), bytearray(payload)).fields == fields


def test_decoded_tensors_own_their_memory_and_may_be_written():
    header, payload = codec.encode(Message(Kind.GRADIENT, 0, torch.ones(2, 2)), "run")
    owned = bytearray(payload)
    decoded = codec.decode(codec.decode_header(header), owned).tensor
    decoded.mul_(2)
    assert struct.unpack("<f", owned[:4]) == (2.0,)


def change(position: int, value: bytes) -> bytes:
    """A valid header with some bytes replaced, and the right checksum for that."""
    header, _ = codec.encode(Message(Kind.GRADIENT, 0, torch.ones(2, 2)), "run")
    return sealed(header[:position] + value + header[position + len(value) : 44])


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "48 bytes"),
        (bytes(48), "CUTL"),
        (change(0, b"HTTP"), "CUTL"),
        (change(4, b"\x01\x00"), "version 1, this party 2"),  # its HELLO lacks a field
        (change(4, b"\x03\x00"), "version 3, this party 2"),
        (change(6, b"\x63"), "kind 99"),
        (change(6, b"\x00"), "kind 0"),
        (change(7, b"\x09"), "element type 9"),
        (change(40, b"\x01\x00\x00\x00"), "Flags"),
        (change(32, (17).to_bytes(8, "little")), "17 bytes"),
        (change(32, (2**63).to_bytes(8, "little")), "bytes for 2 rows"),
        (change(24, b"\xff\xff\xff\xff"), "bytes for 4294967295 rows"),
        (change(7, b"\x00"), "for 2 rows"),  # JSON with two rows
        (codec.encode(Message(Kind.BYE), "run")[0][:47] + b"\x00", "checksum"),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused_by_name(data, rule):
    with pytest.raises(ProtocolError, match=rule):
        codec.decode_header(data)


def test_a_huge_but_consistent_payload_is_refused_before_allocation():
    rows, width = 1 << 20, 1 << 10  # 4 GiB of float32
    head = change(24, rows.to_bytes(4, "little"))[:28] + width.to_bytes(4, "little")
    head += (rows * width * 4).to_bytes(8, "little") + bytes(4)
    with pytest.raises(ProtocolError, match="payload"):
        codec.decode_header(sealed(head))


@pytest.mark.parametrize(
    "payload", [b"\xff\xfe", b"[1]", b"{", b'{"a": [1]}', b'{"a": {"b": 1}}', b"null", b"[" * 2000]
)
def test_control_messages_must_be_one_flat_object(payload):
    head = struct.pack(
        "<4sHBB8sQIIQI",
        b"CUTL",
        2,
        Kind.HELLO,
        0,
        codec.run_tag("run"),
        0,
        1,
        len(payload),
        len(payload),
        0,
    )
    with pytest.raises(ProtocolError, match="control message"):
        codec.decode(codec.decode_header(sealed(head)), bytearray(payload))


def test_a_short_payload_is_refused():
    header, payload = codec.encode(Message(Kind.GRADIENT, 0, torch.ones(2, 2)), "run")
    with pytest.raises(ProtocolError, match="15 bytes"):
        codec.decode(codec.decode_header(header), bytearray(payload[:-1]))


def test_what_may_not_be_sent():
    with pytest.raises(ValueError, match="float64"):
        codec.encode(Message(Kind.GRADIENT, 0, torch.ones(2, 2, dtype=torch.float64)), "run")
    with pytest.raises(ValueError, match="rows, width"):
        codec.encode(Message(Kind.GRADIENT, 0, torch.ones(2)), "run")
    with pytest.raises(ValueError, match="4096"):
        codec.encode(Message(Kind.HELLO, fields={"long": "x" * 5000}), "run")
    with pytest.raises(ValueError, match="JSON"):
        codec.encode(Message(Kind.HELLO, fields={"nan": float("nan")}), "run")


@settings(deadline=None, max_examples=2000)
@given(st.binary(min_size=0, max_size=80))
def test_random_bytes_raise_only_our_error(data):
    with pytest.raises(ProtocolError):
        codec.decode_header(data[:48])


@settings(deadline=None, max_examples=2000)
@given(
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=64),
)
def test_well_sealed_nonsense_raises_only_our_error(kind, code, rows, width, size, payload):
    head = struct.pack("<4sHBB8sQIIQI", b"CUTL", 2, kind, code, bytes(8), 0, rows, width, size, 0)
    try:
        header = codec.decode_header(sealed(head))
        assert header.payload_bytes <= codec.MAX_PAYLOAD_BYTES
        codec.decode(header, bytearray(payload))
    except ProtocolError:
        pass


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.text(max_size=8), st.one_of(st.integers(), st.booleans(), st.none())))
def test_what_is_encoded_is_decoded(fields):
    if len(json.dumps(fields, sort_keys=True)) > codec.MAX_JSON_BYTES:
        return
    header, payload = codec.encode(Message(Kind.HELLO, fields=fields), "run")
    assert codec.decode(codec.decode_header(header), bytearray(payload)).fields == fields
