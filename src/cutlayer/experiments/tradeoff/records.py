"""The records of a sweep: both parties' halves, read once in each process."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from cutlayer.data import DATASETS, LABEL_PARTY, NON_LABEL_PARTY
from cutlayer.data.prepared import PreparedData
from cutlayer.data.tables.lost_ids import lost_ids
from cutlayer.data.tensor_records import Records
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.experiments.tradeoff.configuration import TradeoffConfiguration
from cutlayer.experiments.tradeoff.giveaways import giveaways_in
from cutlayer.experiments.tradeoff.image_file import read_images

_ROWS_SEED = 0
"""Which records take part does not depend on a run's seed: all runs have the same data."""


def records_of(configuration: TradeoffConfiguration) -> tuple[Records, Records]:
    """The label party's and the non-label party's records.

    Raises:
        DataError: a file is missing or damaged.
        ConfigurationError: more rows are asked for than there are.
    """
    return _read(configuration.model_dump_json()).both


def notices_of(configuration: TradeoffConfiguration) -> tuple[str, ...]:
    """What was decided while tables were read, and how many records have no counterpart.

    Raises:
        DataError, ConfigurationError: as :func:`records_of`.
    """
    return _read(configuration.model_dump_json()).notices


def giveaways_of(configuration: TradeoffConfiguration) -> tuple[str, ...]:
    """A line for each column of either party's table that gives the label away.

    Raises:
        DataError, ConfigurationError: as :func:`records_of`.
    """
    return _read(configuration.model_dump_json()).giveaways


@dataclass(frozen=True)
class _Read:
    """Both parties' records."""

    both: tuple[Records, Records]
    notices: tuple[str, ...] = ()
    giveaways: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def _read(settings: str) -> _Read:
    """Read, and keep for the next run of this process."""
    configuration = TradeoffConfiguration.model_validate_json(settings)
    notices: list[str] = []
    label, non_label = _whole(configuration, notices)
    giveaways = _giveaways(configuration, label, non_label)
    if configuration.prepared is not None:
        return _Read((label, non_label), PreparedData(configuration.prepared).notices, giveaways)
    shared = sorted(set(label.ids) & set(non_label.ids))
    lost = lost_ids(LABEL_PARTY, label.ids, shared, len(non_label.ids) - len(shared))
    notices += [] if lost is None else [lost]
    if configuration.rows is not None:
        ids = _chosen(shared, configuration.rows)
        label, non_label = label.ordered_by(ids), non_label.ordered_by(ids)
    return _Read((label, non_label), tuple(notices), giveaways)


def _giveaways(
    configuration: TradeoffConfiguration, label: Records, non_label: Records
) -> tuple[str, ...]:
    """Columns that give the label away; bundled data and images are not looked at."""
    if configuration.prepared is None:
        if configuration.label_party is None:
            return ()
        return giveaways_in(label, non_label, {})
    prepared = PreparedData(configuration.prepared)
    if prepared.is_images:
        return ()
    names = {p: (*prepared.numbers[p], *codes) for p, codes in prepared.categories.items()}
    return giveaways_in(label, non_label, names)


def _whole(configuration: TradeoffConfiguration, notices: list[str]) -> tuple[Records, Records]:
    """All records of the source; adds what was decided on the way."""
    if configuration.data is not None:
        known = DATASETS[configuration.data](**configuration.options)
        return known.label_party_table(), known.non_label_party_table()
    if configuration.images is not None:
        return read_images(configuration.images, configuration.image_side)
    if configuration.prepared is not None:
        prepared, rows = PreparedData(configuration.prepared), configuration.rows
        return (
            prepared.party_records(LABEL_PARTY, rows=rows, seed=_ROWS_SEED),
            prepared.party_records(NON_LABEL_PARTY, rows=rows, seed=_ROWS_SEED),
        )
    tables = configuration.label_party, configuration.non_label_party
    if tables[0] is None or tables[1] is None:
        raise ConfigurationError("Name both tables: label_party and non_label_party.")
    readings = (
        tables[0].table_file().read(LABEL_PARTY),
        tables[1].table_file().read(NON_LABEL_PARTY),
    )
    notices += [notice for reading in readings for notice in reading.notices]
    label, non_label = (reading.table for reading in readings)
    if (label.numbered or non_label.numbered) and len(label) != len(non_label):
        raise DataError(
            f"Records are matched by row number, so {tables[0].file} and {tables[1].file} must "
            f"have the same rows, but they have {len(label):,} and {len(non_label):,}. Bring files "
            "of the same records in the same order, or name an id column that both have."
        )
    return label, non_label


def on_images(configuration: TradeoffConfiguration) -> bool:
    """Whether the non-label party holds images.

    Raises:
        DataError: the prepared folder is missing or damaged.
    """
    if configuration.prepared is not None:
        return PreparedData(configuration.prepared).is_images
    return configuration.images is not None


def codes_of(configuration: TradeoffConfiguration) -> dict[str, tuple[int, ...]]:
    """How many codes each column of codes has, by party; empty unless tables were prepared.

    Raises:
        DataError: the prepared folder is missing or damaged.
    """
    if configuration.prepared is None:
        return {}
    prepared = PreparedData(configuration.prepared)
    if prepared.is_images:
        return {}
    return {party: tuple(codes.values()) for party, codes in prepared.categories.items()}


def _chosen(ids: Sequence[str], rows: int | float) -> list[str]:
    """So many ids, drawn alike in every process."""
    count = round(rows * len(ids)) if isinstance(rows, float) else rows
    if not 2 <= count <= len(ids):
        raise ConfigurationError(f"rows: 2 to {len(ids)} records can take part, got {count}.")
    generator = torch.Generator().manual_seed(_ROWS_SEED)
    return [ids[row] for row in torch.randperm(len(ids), generator=generator)[:count].tolist()]
