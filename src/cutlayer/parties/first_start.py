"""The first start: what a run's features were then, so that a resumed run is the same run.

At the first start that sends something, a party keeps its encoder and a keyed hash of each column
as encoded, over all shared records in the order of their ids. Every later start encodes with the
kept encoder and is refused where a hash differs. The order of rows and columns in the file, its
format, and rows or columns that the run does not use, may change.
"""

import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
import torch
from torch import Tensor

from cutlayer.data import Encoder, PartyTable
from cutlayer.data.column_encoding import NumericColumn
from cutlayer.data.tables.file_message import listing
from cutlayer.data.tensor_records import Records
from cutlayer.durable import storage, whole_file
from cutlayer.errors import DataError
from cutlayer.parties.agreement import Agreement
from cutlayer.parties.handshake import Tell
from cutlayer.parties.inputs import Inputs, encoded
from cutlayer.parties.run_key import RunKey

_FORMAT: Final = "cutlayer.first_start/1"
_WHOLE: Final = "features"
_SHOWN: Final = 10
_REMEDY: Final = (
    "A run is resumed with the data that it began with: use the file and the settings of its first "
    "start, or begin a run of another name at both parties."
)


@dataclass(frozen=True)
class _State:
    """The content of the file."""

    records: str
    """Digest of the shared ids and their split."""
    encoder: Encoder | None
    """``None`` for tensor records."""
    unused: tuple[str, ...]
    """Columns of the table that the encoder does not use."""
    hashes: dict[str, str]
    """Keyed hash of the values of each column as encoded, by its name."""
    settings: dict[str, float]
    """Settings that may change between starts, but not without a notice."""


class FirstStart:
    """Holds every start of a run to the features of the first.

    Args:
        path: of the file that is kept.
        key: of the run: a hash tells its owner whether a column changed, and others nothing.
        file: where the records come from, for the messages; ``None`` where they are from no file.
        settings: numbers of which a change is told, such as the learning rate.
    """

    def __init__(
        self,
        path: Path,
        key: RunKey,
        *,
        file: Path | None = None,
        settings: Mapping[str, float] | None = None,
    ) -> None:
        self._path, self._key = path, key.features_key
        self._file, self._settings = file, dict(settings or {})
        self._fresh: _State | None = None

    def encoded(
        self, records: Records, agreement: Agreement, *, begun: bool | None, tell: Tell
    ) -> Inputs:
        """The records as numbers, encoded as at the first start.

        Args:
            records: of this party.
            agreement: which of them take part.
            begun: whether messages of this run have left before. ``None`` where nothing counts
                them, as in one round: then what is on record decides.
            tell: takes notices for the operator.

        Raises:
            DataError: the columns, their values or the shared records are not those of the first
                start, and the message names what differs; or the file is damaged.
            StorageError: it cannot be read.
        """
        state = None if begun is False else self._read()
        if state is None:
            inputs = encoded(records, agreement)
            self._fresh = self._state_of(records, agreement, inputs)
            if begun:
                tell(
                    f"{records.party}: an earlier version began this run and kept no record of "
                    "its data. From here on, they are compared at each start."
                )
            return inputs
        self._fresh = None
        if state.records != agreement.digest:
            raise self._changed(
                records, "the parties share other records, or split them differently"
            )
        self._require_same_columns(records, state)
        inputs = encoded(records, agreement, state.encoder)
        self._require_same_values(records, state, inputs)
        for notice in self._harmless_changes(records, state):
            tell(f"{records.party}: {notice}")
        return inputs

    def keep(self) -> None:
        """Put on record what :meth:`encoded` made anew, before what depends on it leaves.

        Raises:
            StorageError: it cannot be written.
        """
        if self._fresh is None:
            return
        state, self._fresh = self._fresh, None
        content = {
            "format": _FORMAT,
            "records": state.records,
            "encoder": None if state.encoder is None else state.encoder.to_json(),
            "unused": state.unused,
            "hashes": state.hashes,
            "settings": state.settings,
        }
        with whole_file(self._path) as partial:
            partial.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def _read(self) -> _State | None:
        """What was kept; ``None`` where nothing was."""
        if not self._path.exists():
            return None
        with storage(self._path, "read"):
            text = self._path.read_bytes()
        try:
            content = json.loads(text)
            encoder = content["encoder"]
            state = _State(
                records=str(content["records"]),
                encoder=None if encoder is None else Encoder.from_json(encoder),
                unused=tuple(content["unused"]),
                hashes={str(name): str(mark) for name, mark in content["hashes"].items()},
                settings={str(name): float(value) for name, value in content["settings"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError, DataError) as error:
            raise self._damaged(repr(error)) from error
        if content["format"] != _FORMAT:
            raise self._damaged(f"format {content['format']!r} is unknown")
        return state

    def _damaged(self, why: str) -> DataError:
        """The error for a file that cannot be read."""
        return DataError(
            f"{self._path} is damaged ({why}), so nobody can say whether the data are those that "
            "the run began with. Restore a sound copy, or begin a run of another name."
        )

    def _state_of(self, records: Records, agreement: Agreement, inputs: Inputs) -> _State:
        """What is kept of these records."""
        used = () if inputs.encoder is None else inputs.encoder.kinds
        return _State(
            records=agreement.digest,
            encoder=inputs.encoder,
            unused=tuple(name for name in _columns(records) if name not in used),
            hashes=self._hashes(inputs),
            settings=self._settings,
        )

    def _hashes(self, inputs: Inputs) -> dict[str, str]:
        """Keyed hash of each column's encoded values."""
        hashes = {}
        for name, values in _encoded_columns(inputs):
            mark = hmac.new(self._key, digestmod="sha256")
            form = [name, str(values.dtype), list(values.shape)]
            mark.update(json.dumps(form).encode() + b"\n")
            # -0.0 + 0.0 is 0.0: a sign that no file shows must not count.
            same_zero = (values + 0.0).contiguous()
            mark.update(same_zero.reshape(-1).view(torch.uint8).numpy().data)
            hashes[name] = mark.hexdigest()
        return hashes

    def _require_same_columns(self, records: Records, state: _State) -> None:
        """Refuse records without a column of the first start, or with one of another kind."""
        if isinstance(records, PartyTable) != (state.encoder is not None):
            raise self._changed(records, "the records were of another kind (a table, or tensors)")
        if not isinstance(records, PartyTable) or state.encoder is None:
            return
        features = records.features
        missing = [c.name for c in state.encoder.columns if c.name not in features.columns]
        if missing:
            new = [name for name in features.columns if name not in _known(state)]
            raise self._changed(
                records,
                f"{_counted(len(missing), len(state.encoder.columns))} cannot be found: "
                f"{listing(missing, shown=_SHOWN)}"
                + (f"; {listing(new, shown=_SHOWN)} is new" if new else ""),
                "Look for columns that were renamed, dropped or left out. ",
            )
        texts = [
            column.name
            for column in state.encoder.columns
            if isinstance(column, NumericColumn) and not _holds_numbers(features[column.name])
        ]
        if texts:
            raise self._changed(
                records,
                f"{_counted(len(texts), len(state.encoder.columns))} held numbers and hold "
                f"categories now: {listing(texts, shown=_SHOWN)}",
                "Look at their cells, and at missing, decimal, numeric and categorical. ",
            )

    def _require_same_values(self, records: Records, state: _State, inputs: Inputs) -> None:
        """Refuse records whose encoded values differ in some column."""
        hashes = self._hashes(inputs)
        if hashes == state.hashes:
            return
        if inputs.encoder is None:
            raise self._changed(records, "the tensor of features held other values")
        differing = [name for name, mark in hashes.items() if state.hashes.get(name) != mark]
        raise self._changed(
            records,
            f"{_counted(len(differing), len(hashes))} held other values: "
            f"{listing(differing, shown=_SHOWN)}",
            "Look for columns whose names were exchanged, other units, other spellings of a "
            "category, other options for reading the file, or corrected cells. ",
        )

    def _harmless_changes(self, records: Records, state: _State) -> Iterator[str]:
        """What differs from the first start and does not hinder."""
        new = [name for name in _columns(records) if name not in _known(state)]
        if new:
            yield (
                f"{listing(new, shown=_SHOWN)} was not among the columns when this run began, and "
                "is not used. To use it, begin a run of another name at both parties."
            )
        for name, value in self._settings.items():
            before = state.settings.get(name, value)
            if before != value:
                yield (
                    f"{name} was {before:g} when this run began and is {value:g} now; it goes on "
                    "with the new value."
                )

    def _changed(self, records: Records, what: str, look: str = "") -> DataError:
        """The error for other data than those of the first start."""
        where = records.party if self._file is None else f"{records.party}, file {self._file}"
        return DataError(
            f"{where}: the data are not those that this run began with: {what}. {look}{_REMEDY}"
        )


def _encoded_columns(inputs: Inputs) -> Iterator[tuple[str, Tensor]]:
    """Each column's name and encoded values; of tensor records all values as one."""
    if inputs.encoder is None:
        yield _WHOLE, inputs.values
        return
    begin = 0
    for column in inputs.encoder.columns:
        end = begin + len(column.slots)
        yield column.name, inputs.values[:, begin:end]
        begin = end


def _columns(records: Records) -> list[str]:
    """Names of a table's columns; tensors have none."""
    return records.features.columns if isinstance(records, PartyTable) else []


def _known(state: _State) -> set[str]:
    """Columns that the table of the first start had."""
    return {*state.unused, *state.hashes}


def _holds_numbers(column: pl.Series) -> bool:
    """Whether the encoder could read this column as numbers; one without any value can be."""
    return column.dtype.is_numeric() or column.dtype == pl.Null


def _counted(some: int, every: int) -> str:
    """How many of the columns."""
    return f"{some} of {every} columns" if every > 1 else "its only column"
