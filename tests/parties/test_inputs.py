"""What the training rows taught about the columns reaches the operator of each party."""

from dataclasses import replace

import polars as pl

from cutlayer.parties import LabelParty, NonLabelParty, run_in_one_process
from cutlayer.protections import NoNoise
from cutlayer.rng import SeededNoise
from tests.parties.conftest import adam, make_bottom, make_top, tables, terms


def test_columns_that_the_training_rows_leave_out_are_told():
    told = {"label": [], "other": []}
    label, other = (
        replace(table, features=table.features.with_columns(same=pl.lit(7), name=_names(table)))
        for table in tables()
    )
    run_in_one_process(
        LabelParty(
            label,
            terms(),
            NoNoise(),
            make_top,
            adam,
            noise=SeededNoise(9),
            tell=told["label"].append,
        ),
        NonLabelParty(other, terms(), make_bottom, adam, tell=told["other"].append),
    )
    for party, table in (("label", label), ("other", other)):
        first, second = told[party]
        start = f"{table.party}, column "
        assert first == f"{start}'same': left out, because all training rows hold 7."
        assert second.startswith(f"{start}'name': left out, because none of its ")
        assert second.endswith(" categories occurs in 10 training rows.")


def _names(table):
    """A category of its own for each record."""
    return pl.Series([f"n{name}" for name in table.ids])
