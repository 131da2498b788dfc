"""The split: which records train and which test, decided by a hash of their id."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer import check
from cutlayer.errors import DataError

_PURPOSE = b"cutlayer split"
_SEED_BYTES = 8


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the records that train, validate and test: int64, ascending, disjoint.

    A record's part depends on its own key and the seed alone: not on the order of the rows, not on
    which other records exist. So two parties that hold the same ids split alike and exchange
    nothing but the seed, and a record keeps its part when new ones arrive.

    A key is the record's id or, where several records must stay together (visits of one patient),
    the value of that group. Parts have their shares in expectation only: with ``n`` different
    keys a part with share ``q`` deviates by ``sqrt(q (1 - q) / n)`` (one standard deviation), for
    ``q = 0.2`` that is .005 at 5,822 keys and .04 at 100. Groups of uneven size deviate more.
    """

    train: Tensor
    validation: Tensor
    test: Tensor

    @classmethod
    def by_fold(cls, keys: Sequence[str], *, seed: int, folds: int, test_fold: int) -> "Split":
        """Test on one of ``folds`` parts of equal expected size, train on all others.

        Over ``test_fold = 0 .. folds - 1`` every record is tested exactly once.

        Args:
            keys: ids or group values, one for each record; a value may repeat.
            seed: shared by the parties, from 0 to below 2**64.
            folds: number of parts, at least 2.
            test_fold: the part that tests, in ``0 .. folds - 1``.

        Raises:
            ValueError: a number is outside its range.
            DataError: no record falls into the test part, or none into the training part.
        """
        check.at_least("test_fold", test_fold, 0)
        if test_fold >= folds:
            raise ValueError(f"test_fold must be below folds = {folds}, got {test_fold}.")
        test = fold_of(keys, seed=seed, folds=folds) == test_fold
        _not_empty(train=~test, test=test)
        return cls(
            train=_positions(~test), validation=_positions(test & False), test=_positions(test)
        )

    @classmethod
    def by_shares(
        cls, keys: Sequence[str], *, seed: int, validation: float, test: float
    ) -> "Split":
        """Cut [0, 1) into test, validation and training, and let each key's hash choose.

        Args:
            keys: ids or group values, one for each record; a value may repeat.
            seed: shared by the parties, from 0 to below 2**64.
            validation: expected share of the validation part, in [0, 1).
            test: expected share of the test part, in [0, 1); with ``validation`` below 1.

        Raises:
            ValueError: a share is negative, they sum to 1 or more, or the seed is out of range.
            DataError: a part with a share above 0 gets no record.
        """
        check.not_negative("validation", validation)
        check.not_negative("test", test)
        if validation + test >= 1:
            raise ValueError(
                f"validation + test must stay below 1, got {validation} + {test}: "
                "nothing is left to train on."
            )
        place = hashed_place(keys, seed=seed)
        parts = {
            "train": place >= test + validation,
            "validation": (place >= test) & (place < test + validation),
            "test": place < test,
        }
        shares = {"train": 1.0, "validation": validation, "test": test}
        _not_empty(**{part: mask for part, mask in parts.items() if shares[part] > 0})
        return cls(**{part: _positions(mask) for part, mask in parts.items()})


def fold_of(keys: Sequence[str], *, seed: int, folds: int) -> NDArray[np.int64]:
    r"""The fold of each key: :math:`\lfloor u \cdot \text{folds} \rfloor`, int64, ``(keys,)``.

    Args:
        keys: ids or group values; equal keys share a fold.
        seed: shared by the parties, from 0 to below 2**64.
        folds: number of folds, at least 2.

    Raises:
        ValueError: a number is outside its range.
    """
    check.at_least("folds", folds, 2)
    # u is at most 1 - 2**-53, and u * folds then rounds to a double below folds.
    return (hashed_place(keys, seed=seed) * folds).astype(np.int64)


def hashed_place(keys: Sequence[str], *, seed: int) -> NDArray[np.float64]:
    r"""Where each key falls in [0, 1): a keyed hash that looks uniform, and never changes.

    .. math:: u = \lfloor h / 2^{11} \rfloor / 2^{53}, \qquad
              h = \mathrm{BLAKE2b}_{64}(\text{key} = \text{seed},\ \text{id})

    The lowest 11 of the hash's 64 bits go, since a float64 near 1 cannot hold them.

    Args:
        keys: any texts, hashed as UTF-8; equal keys fall onto the same place.
        seed: the hash's key, from 0 to below 2**64.

    Returns:
        Places in [0, 1), float64, shape ``(keys,)``.

    Raises:
        ValueError: the seed is not a whole number in its range.
    """
    check.at_least("seed", seed, 0)
    if seed >= 2 ** (8 * _SEED_BYTES):
        raise ValueError(f"seed must be below 2**64, got {seed}.")
    keyed = blake2b(
        digest_size=8, key=seed.to_bytes(_SEED_BYTES, "big"), person=_PURPOSE.ljust(16, b"\0")
    )
    digests = bytearray()
    for key in keys:
        one = keyed.copy()
        one.update(key.encode())
        digests += one.digest()
    words = np.frombuffer(bytes(digests), dtype=">u8").astype(np.uint64)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _positions(mask: NDArray[np.bool_]) -> Tensor:
    """Where the mask is true, int64, ascending."""
    return torch.from_numpy(np.flatnonzero(mask).astype(np.int64, copy=False))


def _not_empty(**parts: NDArray[np.bool_]) -> None:
    """Refuse a split in which one of these parts would have no record."""
    for part, mask in parts.items():
        if not mask.any():
            raise DataError(
                f"None of the {len(mask)} records falls into the {part} part. "
                "Bring more records, give the part a larger share, or use another seed."
            )
