"""Noise sources: where a protection's randomness comes from.

A protection never touches torch's global generator. In a real run it draws from
:class:`SecretNoise`, which nobody can predict or repeat; in a test or a simulation from
:class:`SeededNoise`, which marks every report that rests on it.
"""

import hmac
import math
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from hashlib import blake2b, sha256
from typing import Any, NoReturn, Self, SupportsIndex, TypeAlias

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor
from typing_extensions import override

_KEY_BYTES = 32
_MARK_BYTES = 16
_BLOCK_PAIRS = 16384
_DROPPED_BITS = np.uint64(11)
_ZEROS = memoryview(bytes(1 << 16))

Words: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint64]]"
"""Uniform random 64-bit words."""


class NoiseSource(ABC):
    """Draws standard normals. One source serves one run and is never rewound."""

    reproducible: bool
    """Whether somebody who knows a seed can draw the same noise again."""

    @abstractmethod
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        """Independent draws from N(0, 1), float64, of this shape."""

    def for_release(self, step: int, *values: Tensor) -> "NoiseSource":  # noqa: ARG002
        """The source for the noise of one message.

        Args:
            step: of the message.
            values: everything that the noise will be added to, or that scales it: labels too.
        """
        return self

    def marks(self, ids: Iterable[str], labelling: bytes) -> Tensor:  # noqa: ARG002
        """What :meth:`for_visit` knows records by; made once for a training.

        Args:
            ids: of the records, unique.
            labelling: a digest of the labels that the noise will hide. Under other labels records
                get other marks, and so unrelated noise: what is sent about a label before and
                after it changes must not differ by the change alone.

        Returns:
            One row for each record, uint8, shape ``(records, ...)``.
        """
        return torch.zeros(len(list(ids)), 0, dtype=torch.uint8)

    def for_visit(self, visit: int, marks: Tensor, scale: float) -> "NoiseSource":  # noqa: ARG002
        """The source for one draw for each record, the same at every call for the same visit.

        Args:
            visit: how often the records were visited before.
            marks: of the records, rows of :meth:`marks`.
            scale: what the noise will be multiplied by. Another scale gets unrelated noise: two
                multiples of the same noise would tell what they were added to.
        """
        return self

    def normal_like(self, tensor: Tensor) -> Tensor:
        """Independent draws from N(0, 1), float64, in the shape and on the device of ``tensor``."""
        return self.normal(*tensor.shape, device=tensor.device)

    def unit_vectors_like(self, tensor: Tensor) -> Tensor:
        """Rows that point in uniformly random directions, float64, norm 1, shape of ``tensor``."""
        rows = self.normal_like(tensor)
        return rows.div_(torch.linalg.vector_norm(rows, dim=1, keepdim=True))


class _Secret(NoiseSource):
    """A source whose key stays in the memory of one process, and is never there twice."""

    reproducible = False

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "SecretNoise holds a secret key and cannot be pickled or saved. Make a new "
            "SecretNoise() where it is needed."
        )

    def __copy__(self) -> Self:
        return self  # two copies would draw the same noise

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @override
    def __repr__(self) -> str:
        return "SecretNoise()"


class SecretNoise(_Secret):
    r"""Gaussian noise from an AES-256-CTR key stream with a key that nobody can guess.

    torch's own CPU generator keeps only 32 bits of its seed, so its noise can be found by trial.
    Here the key has 256 bits, is drawn from the operating system and never shown. Box-Muller in
    float64 turns the key stream into normals with a fixed amount of work for each value; the
    radius has 53 random bits, so the tail reaches :math:`\sqrt{2 \cdot 53 \ln 2} = 8.57` standard
    deviations.

    Each release has a key stream of its own, with the key

    .. math:: \mathrm{HMAC}_{k}\left(\text{step},\ \mathrm{SHA256}(\text{values})\right):

    the same message after a crash gets the same noise, so that a second copy tells nothing new,
    and two different messages get unrelated noise: to share any, they would have to make SHA-256 or
    HMAC collide.

    The noise of a visit depends on the record and on how often it was visited, and on nothing that
    somebody else could choose. With a mark :math:`m_i = \mathrm{BLAKE2b}_{128}(\text{id}_i)` under
    a key that is derived from k and the labelling, the 128 bits behind record i's draw are

    .. math:: \mathrm{AES}_{k'}(m_i), \qquad
              k' = \mathrm{HMAC}_{k}\left(\text{visit},\ \text{scale}\right).

    Different marks are different blocks, so nobody can tell these bits from independent ones, but
    for a chance of about :math:`n^2 / 2^{128}` with n records: of two equal marks, or of noticing
    that AES gives no block twice.

    Outside of releases and visits, noise comes from a key that lives in memory only; a process that
    was forked off draws one of its own.

    One source serves one thread.

    Args:
        key: k, 32 bytes that are kept beside the run so that it can be gone on with; ``None``
            draws one that dies with this object.

    Raises:
        ValueError: the key has another length.
    """

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and len(key) != _KEY_BYTES:
            raise ValueError(f"key must have {_KEY_BYTES} bytes, got {len(key)}.")
        self._release_key = key or os.urandom(_KEY_BYTES)
        # Memory of one block, used again: fresh memory costs more than the arithmetic, and a
        # block of this size stays in the processor's cache.
        self._block = _Block(_BLOCK_PAIRS)
        self._stream, self._process = _KeyStream(os.urandom(_KEY_BYTES), self._block), os.getpid()

    @override
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        if os.getpid() != self._process:  # a fork holds the parent's key and would repeat its noise
            self._stream = _KeyStream(os.urandom(_KEY_BYTES), self._block)
            self._process = os.getpid()
        return self._stream.normal(*shape, device=device)

    @override
    def for_release(self, step: int, *values: Tensor) -> NoiseSource:
        label = b"release" + step.to_bytes(8, "little") + tensor_digest(*values)
        return _KeyStream(hmac.digest(self._release_key, label, "sha256"), self._block)

    @override
    def marks(self, ids: Iterable[str], labelling: bytes) -> Tensor:
        key = hmac.digest(self._release_key, b"records" + labelling, "sha256")
        keyed = blake2b(key=key, digest_size=_MARK_BYTES)
        marks = bytearray()
        for name in ids:
            mark = keyed.copy()
            mark.update(name.encode())
            marks += mark.digest()
        if not marks:
            return torch.zeros(0, _MARK_BYTES, dtype=torch.uint8)
        return torch.frombuffer(marks, dtype=torch.uint8).reshape(-1, _MARK_BYTES)

    @override
    def for_visit(self, visit: int, marks: Tensor, scale: float) -> NoiseSource:
        label = b"visit" + struct.pack("<Qd", visit, scale)
        return _VisitNoise(hmac.digest(self._release_key, label, "sha256"), marks)


class _KeyStream(_Secret):
    """Normals from the key stream of one key, from its beginning on."""

    def __init__(self, key: bytes, block: "_Block") -> None:
        self._block = block
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    @override
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        count = math.prod(shape)
        normals = torch.empty(count + count % 2, dtype=torch.float64)
        for part in normals.split(2 * _BLOCK_PAIRS):
            block = self._block if len(part) == 2 * _BLOCK_PAIRS else _Block(len(part) // 2)
            for chunk in block.chunks:
                self._stream.update_into(_ZEROS[: len(chunk)], chunk)
            block.normals_into(part)
        return normals[:count].reshape(shape).to(device)


class _VisitNoise(_Secret):
    """One normal for each record, from its mark under the key of a visit."""

    def __init__(self, key: bytes, marks: Tensor) -> None:
        if marks.dtype != torch.uint8 or marks.shape[1:] != (_MARK_BYTES,):
            raise ValueError(
                f"marks must be uint8 of shape (records, {_MARK_BYTES}), got {marks.dtype} of "
                f"shape {tuple(marks.shape)}."
            )
        self._marks: Tensor | None = marks.cpu().contiguous()
        # No mode of operation: each block is one value of a pseudorandom function.
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305

    @override
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        marks, self._marks = self._marks, None
        if marks is None or shape != (len(marks),):
            raise ValueError(
                "the noise of a visit is one draw for each of its records, once; got a second "
                f"call, or another shape: {shape}."
            )
        words = np.frombuffer(self._cipher.encryptor().update(marks.numpy().data), dtype="<u8")
        return box_muller(words[0::2], words[1::2])[: len(marks)].to(device)


class SeededNoise(NoiseSource):
    """Noise that anybody with the seed can repeat: for tests and simulations only.

    It draws anew at every call, also for a visit.
    """

    reproducible = True

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generator = torch.Generator().manual_seed(seed)

    @override
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        return torch.randn(shape, generator=self._generator, dtype=torch.float64).to(device)

    def __repr__(self) -> str:
        return f"SeededNoise({self._seed})"


def derived_seed(*parts: str | int) -> int:
    """A seed for one purpose of an experiment, equal on every machine; never one of secret noise.

    Args:
        parts: the experiment's own seed, and what the numbers are for.

    Returns:
        From 0 to below 2**56: BLAKE2b of the parts with slashes between them.

    >>> derived_seed(0, "weights") != derived_seed(1, "weights") != derived_seed(1, "batches")
    True
    """
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big")


def tensor_digest(*values: Tensor) -> bytes:
    """SHA-256 over type, shape and bytes of tensors, 32 bytes: equal for equal values only."""
    mark = sha256()
    for value in values:
        plain = value.detach().cpu().contiguous()
        mark.update(f"{plain.dtype} {tuple(plain.shape)};".encode())
        if plain.numel():
            mark.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return mark.digest()


def box_muller(radius_words: Words, angle_words: Words) -> Tensor:
    r"""Turn pairs of uniform 64-bit words into pairs of standard normals.

    .. math:: u = (\lfloor w / 2^{11} \rfloor + 1)\, 2^{-53} \in (0, 1], \quad
              z = \sqrt{-2 \ln u}\,(\cos 2\pi t, \sin 2\pi t)

    Args:
        radius_words: words for u, uint64, shape ``(pairs,)``.
        angle_words: words for t in [0, 1), uint64, shape ``(pairs,)``.

    Returns:
        Normals, float64, shape ``(2 * pairs,)``: all cosines, then all sines. Always finite.

    Source: Box and Muller (1958), "A Note on the Generation of Random Normal Deviates".
    """
    block = _Block(len(radius_words))
    np.concatenate([radius_words, angle_words], out=block.words)
    return block.normals_into(torch.empty(2 * len(radius_words), dtype=torch.float64))


class _Block:
    """Memory for the words of one block and for the numbers between them and the normals."""

    def __init__(self, pairs: int) -> None:
        self.words = np.empty(2 * pairs, dtype="<u8")
        raw = self.words.view(np.uint8).data
        self.chunks = [raw[i : i + len(_ZEROS)] for i in range(0, len(raw), len(_ZEROS))]
        self._integers = torch.from_numpy(self.words.view(np.int64))
        self._values = torch.empty(2 * pairs, dtype=torch.float64)
        self._radius, self._angle = self._values[:pairs], self._values[pairs:]

    def normals_into(self, out: Tensor) -> Tensor:
        """Write the normals of the words, radii first; the words are used up."""
        np.right_shift(self.words, _DROPPED_BITS, out=self.words)
        self._values.copy_(self._integers)  # below 2**53: exact
        self._radius.add_(1.0).mul_(2.0**-53).log_().mul_(-2.0).sqrt_()
        self._angle.mul_(math.tau * 2.0**-53)
        pairs = len(self._radius)
        torch.cos(self._angle, out=out[:pairs]).mul_(self._radius)
        torch.sin(self._angle, out=out[pairs:]).mul_(self._radius)
        return out
