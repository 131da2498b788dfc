"""Options of a preparation, each held to its rule, and what is told while it runs."""

import math
from dataclasses import asdict, dataclass
from typing import Final, Literal, Protocol, get_args

import numpy as np
import polars as pl

from cutlayer.data.split import fold_of, hashed_place
from cutlayer.errors import ConfigurationError

Numbers = Literal["min-max", "log", "as-is"]
Vocabulary = Literal["exact", "hashed"]

PARTS: Final = ("train", "validation", "test")

_PART_KIND: Final = pl.Enum(PARTS)


class Progress(Protocol):
    """Hears how far a preparation is."""

    def __call__(self, stage: str, *, rows: int, done: int, total: int) -> None:
        """``rows`` have been looked at in this stage; ``done`` of ``total`` units of the source."""


@dataclass(frozen=True)
class SplitOptions:
    """Which records train, validate and test, by the keyed hash of their id.

    The same rule as :class:`~cutlayer.data.split.Split`, so a party that splits the ids itself with
    the same seed gets the same parts.

    Raises:
        ConfigurationError: a share, the seed, or the fold is out of range.
    """

    seed: int = 0
    validation: float = 0.1
    test: float = 0.2
    folds: int | None = None
    """Parts of equal expected size in place of shares: one tests, all others train."""
    test_fold: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**64:
            raise ConfigurationError(f"seed must lie from 0 to below 2**64, got {self.seed}.")
        shares = self.validation, self.test
        if not (min(shares) >= 0 and sum(shares) < 1):  # NaN fails too
            raise ConfigurationError(
                "validation and test must be shares from 0 that sum to less than 1, got "
                f"{self.validation} and {self.test}."
            )
        if self.folds is None:
            if self.test_fold:
                raise ConfigurationError(
                    f"test_fold is {self.test_fold}, but there are no folds. Set folds too."
                )
            return
        if self.folds < 2:
            raise ConfigurationError(f"folds must be at least 2, got {self.folds}.")
        if not 0 <= self.test_fold < self.folds:
            raise ConfigurationError(
                f"test_fold must lie from 0 to below folds = {self.folds}, got {self.test_fold}."
            )

    def parts_of(self, ids: pl.Series) -> pl.Series:
        """``train``, ``validation`` or ``test`` for each id."""
        if len(ids) == 0:
            return pl.Series([], dtype=_PART_KIND)
        keys = ids.to_list()
        if self.folds is not None:
            fold = fold_of(keys, seed=self.seed, folds=self.folds)
            number = np.where(fold == self.test_fold, 2, 0)
        else:
            place = hashed_place(keys, seed=self.seed)
            number = np.where(place < self.test + self.validation, 1, 0)
            number[place < self.test] = 2
        return pl.Series(np.array(PARTS)[number].tolist(), dtype=_PART_KIND)


@dataclass(frozen=True)
class TableOptions:
    """How columns become numbers and codes.

    Raises:
        ConfigurationError: an option breaks its rule.
    """

    numbers: Numbers = "min-max"
    """``min-max`` over the training rows; ``log``: sign(v) log(1 + abs(v)), then standardised;
    ``as-is``. A missing number is 0 before any of these."""
    vocabulary: Vocabulary = "exact"
    """``exact``: a code for each value that is frequent enough; ``hashed``: no vocabulary."""
    min_count: int = 10
    """How often a value must occur in training rows to get a code of its own."""
    hash_bits: int = 18
    """A hashed column has 2 to this power codes."""
    split: SplitOptions = SplitOptions()
    max_rejects: float = 0.01
    """The largest share of dirty rows with which the run goes on."""
    shard_rows: int = 250_000
    """A shard ends with the block that reaches so many rows."""
    block_bytes: int = 1 << 23
    """How much text is parsed at a time."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("numbers", self.numbers, get_args(Numbers)),
            ("vocabulary", self.vocabulary, get_args(Vocabulary)),
        ):
            if value not in known:
                raise ConfigurationError(f"{name} must be one of {known}, got {value!r}.")
        if not 1 <= self.hash_bits <= 24:
            raise ConfigurationError(f"hash_bits must lie from 1 to 24, got {self.hash_bits}.")
        for name in ("min_count", "shard_rows", "block_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {getattr(self, name)}.")
        require_share("max_rejects", self.max_rejects)

    def as_plan(self) -> dict[str, object]:
        """All that the output depends on, as a JSON object."""
        return _as_plan(self)


@dataclass(frozen=True)
class ImageOptions:
    """How images become tensors.

    Raises:
        ConfigurationError: an option breaks its rule.
    """

    size: int = 84
    """Height and width after resizing, in pixels; the shape is not kept."""
    negatives_per_positive: int | None = 9
    """How many negatives are kept for each positive, chosen by a keyed hash of the id. ``None``
    keeps all."""
    split: SplitOptions = SplitOptions()
    max_rejects: float = 0.01
    shard_rows: int = 512

    def __post_init__(self) -> None:
        kept = self.negatives_per_positive
        if self.size < 1 or self.shard_rows < 1 or (kept is not None and kept < 1):
            raise ConfigurationError(
                "size, shard_rows and negatives_per_positive must be at least 1, got "
                f"{self.size}, {self.shard_rows} and {kept}."
            )
        require_share("max_rejects", self.max_rejects)

    def as_plan(self) -> dict[str, object]:
        """All that the output depends on, as a JSON object."""
        return _as_plan(self)


def _as_plan(options: TableOptions | ImageOptions) -> dict[str, object]:
    """Options without those that decide whether to go on, and not what is written."""
    return {name: value for name, value in asdict(options).items() if name != "max_rejects"}


def require_share(name: str, value: float) -> None:
    """Require a share in [0, 1].

    Raises:
        ConfigurationError: it lies outside, or is NaN.
    """
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise ConfigurationError(f"{name} must lie from 0 to 1, got {value!r}.")
