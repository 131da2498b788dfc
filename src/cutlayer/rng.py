"""Noise sources: where a protection's randomness comes from.

A protection never touches torch's global generator. In a real run it draws from
:class:`SecretNoise`, which nobody can predict or repeat; in a test or a simulation from
:class:`SeededNoise`, which marks every report that rests on it.
"""

import math
import os
from abc import ABC, abstractmethod

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor
from typing_extensions import override

_KEY_BYTES = 32
_WORD_BYTES = 8


class NoiseSource(ABC):
    """Draws standard normals. One source serves one run and is never rewound."""

    reproducible: bool
    """Whether somebody who knows a seed can draw the same noise again."""

    @abstractmethod
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        """Independent draws from N(0, 1), float64, of this shape."""

    def normal_like(self, tensor: Tensor) -> Tensor:
        """Independent draws from N(0, 1), float64, in the shape and on the device of ``tensor``."""
        return self.normal(*tensor.shape, device=tensor.device)

    def unit_vectors_like(self, tensor: Tensor) -> Tensor:
        """Rows that point in uniformly random directions, float64, norm 1, shape of ``tensor``."""
        return torch.nn.functional.normalize(self.normal_like(tensor), dim=1)


class SecretNoise(NoiseSource):
    r"""Gaussian noise from an AES-256-CTR key stream with a key of the operating system.

    torch's own CPU generator keeps only 32 bits of its seed, so its noise can be found by trial.
    Here the key has 256 bits, is drawn from the operating system, is held in memory only and
    never shown. Box-Muller in float64 turns the key stream into normals with a fixed amount of
    work for each value; the radius has 53 random bits, so the tail reaches
    :math:`\sqrt{2 \cdot 53 \ln 2} = 8.57` standard deviations.
    """

    reproducible = False

    def __init__(self) -> None:
        cipher = Cipher(algorithms.AES(os.urandom(_KEY_BYTES)), modes.CTR(bytes(16)))
        self._stream = cipher.encryptor()

    @override
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        count = math.prod(shape)
        pairs = (count + 1) // 2
        words = np.frombuffer(self._stream.update(bytes(2 * pairs * _WORD_BYTES)), dtype="<u8")
        normals = box_muller(words[:pairs], words[pairs:])
        return normals[:count].reshape(shape).to(device)

    def __repr__(self) -> str:
        return "SecretNoise()"


class SeededNoise(NoiseSource):
    """Noise that anybody with the seed can repeat: for tests and simulations only."""

    reproducible = True

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    @override
    def normal(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        return torch.randn(*shape, generator=self._generator, dtype=torch.float64).to(device)


def box_muller(
    radius_words: "np.ndarray[tuple[int], np.dtype[np.uint64]]",
    angle_words: "np.ndarray[tuple[int], np.dtype[np.uint64]]",
) -> Tensor:
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
    uniform = torch.from_numpy((radius_words >> np.uint64(11)).astype(np.float64))
    turn = torch.from_numpy((angle_words >> np.uint64(11)).astype(np.float64))
    radius = uniform.add_(1.0).mul_(2.0**-53).log_().mul_(-2.0).sqrt_()
    angle = turn.mul_(math.tau * 2.0**-53)
    normals = torch.empty(2 * len(radius), dtype=torch.float64)
    torch.mul(radius, angle.cos(), out=normals[: len(radius)])
    torch.mul(radius, angle.sin_(), out=normals[len(radius) :])
    return normals
