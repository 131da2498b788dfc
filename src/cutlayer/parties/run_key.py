"""The run key: one secret of a party for one run, from which all its own randomness is derived."""

import hmac
import os
from pathlib import Path

import torch

from cutlayer.durable import create_private, storage
from cutlayer.errors import ConfigurationError
from cutlayer.rng import SecretNoise

_KEY_BYTES = 32


class RunKey:
    """32 bytes of the operating system; the same at every start of a run, and never rolled back.

    Losing it ends the run: what was sent before cannot be computed again, and nothing else may be
    sent for the same steps.

    Args:
        secret: the bytes.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def kept_at(cls, path: Path) -> "RunKey":
        """The key in this file, which is made at the first start.

        Raises:
            ConfigurationError: other users may read the file, or it is damaged.
            StorageError: it cannot be written.
        """
        create_private(path, os.urandom(_KEY_BYTES))
        return cls.read_from(path)

    @classmethod
    def read_from(cls, path: Path) -> "RunKey":
        """The key in this file, which exists.

        Raises:
            ConfigurationError: other users may read the file, or it is damaged.
            StorageError: it cannot be read.
        """
        with storage(path, "read"):
            secret = path.read_bytes()
        if path.stat().st_mode & 0o077:
            raise ConfigurationError(
                f"{path} can be read by other users, and it hides the labels: chmod 600 {path}, "
                "and begin a run of another name if somebody may have read it."
            )
        if len(secret) != _KEY_BYTES:
            raise ConfigurationError(
                f"{path} has {len(secret)} bytes where {_KEY_BYTES} belong. Put the run's key "
                "back, or begin a run of another name."
            )
        return cls(secret)

    def noise(self) -> SecretNoise:
        """The noise source of the run."""
        return SecretNoise(self._derived("noise"))

    @property
    def order_nonce(self) -> bytes:
        """This party's half of what the batch order is drawn from, 32 bytes."""
        return self._derived("order")

    @property
    def features_key(self) -> bytes:
        """What the hashes of the party's features are keyed with, 32 bytes."""
        return self._derived("features")

    @property
    def labels_key(self) -> bytes:
        """What the record of the run's labels is keyed with, 32 bytes."""
        return self._derived("labels")

    def sealed_labelling(self, labelling: bytes) -> str:
        """A keyed hash of a digest of labels, 64 hexadecimal digits; shows nothing without the key.

        Args:
            labelling: the digest.
        """
        return hmac.digest(self._derived("labelling"), labelling, "sha256").hex()

    def seed_torch(self, step: int) -> None:
        """Seed torch's global generator, so that dropout in a step is the same at every start.

        Never used for noise, which does not touch that generator.
        """
        seed = int.from_bytes(self._derived(f"step {step}")[:8], "little") >> 1
        # What torch.manual_seed does beyond this, for devices that are not in use, costs more.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)

    def _derived(self, purpose: str) -> bytes:
        """Another 32 bytes for every purpose."""
        return hmac.digest(self._secret, purpose.encode(), "sha256")

    def __repr__(self) -> str:
        return "RunKey()"
