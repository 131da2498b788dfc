"""Prepared data: what ``cutlayer prepare`` made, read back as records of one party."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError
from torch import Tensor

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName
from cutlayer.data.prepared_files import FORMAT, MAX_CODES, SCHEMA_FILE, shard_name
from cutlayer.data.split import hashed_place
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.data.text_sequence import TextSequence
from cutlayer.errors import DataError

_PIXEL: Final = 255.0


@dataclass(frozen=True)
class _Shard:
    """One shard of one party, and which of its rows are wanted."""

    path: Path
    ids: pl.Series
    rows: NDArray[np.intp]


class PreparedData:
    """A folder made by ``cutlayer prepare``.

    Args:
        folder: the output folder.

    Raises:
        DataError: there is no finished preparation, or one of another format.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).expanduser()
        path = self.folder / SCHEMA_FILE
        try:
            self.schema: dict[str, Any] = json.loads(path.read_bytes())
            found = self.schema["plan"]["versions"]["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self.folder} must be a folder that `cutlayer prepare` finished, but its "
                f"{SCHEMA_FILE} cannot be read: {error!r}. Prepare the data first."
            ) from error
        if found != FORMAT:
            raise DataError(
                f"{self.folder} has format {found!r}, but this release reads format {FORMAT}. "
                "Prepare the data again."
            )

    def __len__(self) -> int:
        return int(self.schema["rows"])

    @property
    def is_images(self) -> bool:
        """Whether the non-label party's features are images."""
        return bool(self.schema["kind"] == "images")

    @property
    def description(self) -> str:
        """One sentence: which data, how many records, how they are split, what each party holds."""
        parts = ", ".join(f"{count:,} {part}" for part, count in self.schema["parts"].items())
        held = "; ".join(
            f"{party}: {self._held(party)}" for party in (NON_LABEL_PARTY, LABEL_PARTY)
        )
        return f"{self.schema['plan']['data']}, {len(self):,} records ({parts}). {held}."

    @property
    def notices(self) -> tuple[str, ...]:
        """What was decided about the columns unasked when the data were prepared."""
        return tuple(self.schema.get("notices", ()))

    @property
    def categories(self) -> Mapping[PartyName, Mapping[str, int]]:
        """For each party, how many codes each column of codes has, in the order of the features."""
        parties = self.schema["parties"]
        return {
            party: dict(parties[party]["categories"]) for party in (LABEL_PARTY, NON_LABEL_PARTY)
        }

    @property
    def numbers(self) -> Mapping[PartyName, tuple[str, ...]]:
        """For each party, the columns of numbers, in the order of the features."""
        parties = self.schema["parties"]
        return {party: tuple(parties[party]["numbers"]) for party in (LABEL_PARTY, NON_LABEL_PARTY)}

    @cached_property
    def parts(self) -> Mapping[str, TextSequence]:
        """Ids of the records that ``train``, ``validation`` and ``test``, in the file's order."""
        columns = [self._read(path, ["id", "part"]) for path in self._files(NON_LABEL_PARTY)]
        whole = pl.concat(columns)
        part = whole["part"].cast(pl.String)
        return {
            name: TextSequence(whole["id"].filter(part == name)) for name in self.schema["parts"]
        }

    def party_records(
        self, party: PartyName, *, rows: float | None = None, seed: int = 0
    ) -> TensorRecords:
        """The records of one party, all or some.

        Which records are chosen depends on their ids and the seed alone, so both parties choose the
        same ones. Files are read one shard at a time; of images that are not chosen no pixel is
        read, of table rows no more than their shard is held.

        Args:
            party: whose records.
            rows: a whole number: so many records, at most all of them; a float above 0 and up to
                1: this share of them, in expectation. ``None``: all.
            seed: of the choice, from 0 to below 2**64.

        Returns:
            float32 features: of a table, numbers and then codes as whole numbers, shape
            ``(records, columns)``; of images, shape ``(records, 3, size, size)`` from 0 to 1, and
            at the label party ``(records, 0)``. Labels at the label party.

        Raises:
            ValueError: ``rows`` is neither of these.
            DataError: a file is missing or damaged, an id repeats, no record is chosen, or a column
                has more codes than float32 tells apart.
        """
        for column, size in self.categories[party].items():
            if size > MAX_CODES:
                raise DataError(
                    f"{party}, column {column!r}: has {size:,} codes, but float32 tells only "
                    f"{MAX_CODES:,} apart. Prepare the data with fewer."
                )
        shards = list(self._chosen(party, _wanted(rows), seed))
        count = sum(len(shard.rows) for shard in shards)
        if count == 0:
            raise DataError(f"{self.folder}: no record is chosen. Ask for more rows.")
        features = torch.empty((count, *self._shape(party)), dtype=torch.float32)
        labels = torch.empty(count, dtype=torch.int64) if party == LABEL_PARTY else None
        begin = 0
        for shard in shards:
            end = begin + len(shard.rows)
            self._fill(
                shard, party, features[begin:end], None if labels is None else labels[begin:end]
            )
            begin = end
        ids = pl.concat([shard.ids.gather(shard.rows) for shard in shards])
        return TensorRecords(party, TextSequence(ids), features, labels)

    def _chosen(self, party: PartyName, wanted: int | float, seed: int) -> Iterator[_Shard]:
        """Every shard with the rows that are wanted."""
        files = self._files(party)
        ids = [self._read(path, ["id"])["id"] for path in files]
        everything = wanted == 1.0 if isinstance(wanted, float) else wanted >= len(self)
        if everything:
            for path, names in zip(files, ids, strict=True):
                yield _Shard(path, names, np.arange(len(names)))
            return
        # A prefix, or rows chosen with the split's seed would all be of one part.
        places = [hashed_place([f"row {name}" for name in names], seed=seed) for names in ids]
        if isinstance(wanted, float):
            limit = wanted
        else:
            limit = float(np.partition(np.concatenate(places), wanted)[wanted])
        for path, names, place in zip(files, ids, places, strict=True):
            yield _Shard(path, names, np.flatnonzero(place < limit))

    def _fill(
        self, shard: _Shard, party: PartyName, features: Tensor, labels: Tensor | None
    ) -> None:
        """Read the wanted rows of one shard."""
        if len(shard.rows) == 0:
            return
        image = self.schema["parties"][party].get("image")
        names = [] if image else [*self.numbers[party], *self.categories[party]]
        frame = self._read(shard.path, [*names, *(["label"] if labels is not None else [])])
        for place, name in enumerate(names):
            column = frame[name].gather(shard.rows).cast(pl.Float32)
            features[:, place] = torch.from_numpy(column.to_numpy(writable=True))
        if labels is not None:
            column = frame["label"].gather(shard.rows).cast(pl.Int64)
            labels.copy_(torch.from_numpy(column.to_numpy(writable=True)))
        if image:
            pixels = self._pixels(shard)
            features.copy_(torch.from_numpy(pixels).permute(0, 3, 1, 2))
            features.div_(_PIXEL)

    def _pixels(self, shard: _Shard) -> NDArray[np.uint8]:
        """Images as they are stored: uint8, shape ``(rows, size, size, 3)``."""
        path = shard.path.with_suffix(".npy")
        try:
            stored = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(path, error) from error
        if len(stored) != len(shard.ids):
            raise self._damaged(path, f"{len(stored)} images for {len(shard.ids)} ids")
        return np.ascontiguousarray(stored[shard.rows])

    def _files(self, party: PartyName) -> list[Path]:
        """The shards of one party, in order."""
        folder = self.folder / self.schema["parties"][party]["folder"]
        return [folder / shard_name(number) for number in range(len(self.schema["shards"]))]

    def _read(self, path: Path, columns: list[str]) -> pl.DataFrame:
        """Some columns of a shard."""
        try:
            return pl.read_parquet(path, columns=columns, glob=False) if columns else pl.DataFrame()
        except (PolarsError, PanicException, OSError) as error:
            raise self._damaged(path, error) from error

    def _damaged(self, path: Path, why: object) -> DataError:
        """The error for a shard that cannot be read."""
        told = str(why).partition("\n")[0][:200]
        return DataError(f"{path} is missing or damaged: {told}. Prepare the data again.")

    def _shape(self, party: PartyName) -> tuple[int, ...]:
        """The shape of one record's features."""
        image = self.schema["parties"][party].get("image")
        return tuple(image) if image else (len(self.numbers[party]) + len(self.categories[party]),)

    def _held(self, party: PartyName) -> str:
        """What a party holds, in words."""
        image = self.schema["parties"][party].get("image")
        if image:
            return f"images of {image[1]}x{image[2]}"
        return f"{len(self.numbers[party])} numbers, {len(self.categories[party])} categories"


def _wanted(rows: float | None) -> int | float:
    """How many records are wanted: a number, or a share.

    Raises:
        ValueError: it is neither a whole number from 1 up nor a share above 0.
    """
    if rows is None:
        return 1.0
    if isinstance(rows, bool) or not (rows >= 1 if isinstance(rows, int) else 0 < rows <= 1):
        raise ValueError(
            f"rows must be a whole number of at least 1, or a float above 0 up to 1, got {rows!r}."
        )
    return rows
