"""Caravan: real customers of a Dutch insurer, and which of them insure a caravan."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl
import torch
from typing_extensions import override

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName, PartyTable
from cutlayer.data.shared_draws import permutation
from cutlayer.data.vertical_data import DataSet
from cutlayer.errors import DataError

_ROWS = 5822
_CODES = ("MOSTYPE", "MOSHOOFD")
_LABEL = "Purchase"
# Each party's rows stand in another order, as in real life: only the ids bring them together.
_ORDER = {NON_LABEL_PARTY: 1, LABEL_PARTY: 2}


@dataclass(frozen=True)
class Caravan(DataSet):
    """5,822 customers, 348 of whom bought; no download, the file lies in the ISLP wheel.

    The non-label party knows the neighbourhood: the 43 ``M`` columns, demography by post code.
    The label party is the insurer: 21 ``P`` columns (what is paid for each kind of policy), 21
    ``A`` columns (how many), and the purchase. ``MOSTYPE`` and ``MOSHOOFD`` are codes of customer
    types, hence text; all other columns are ordered steps, hence numbers. The file has no id, so
    the row number names the client. 602 rows repeat an earlier one in all 86 columns.

    Source: CoIL Challenge 2000, Sentient Machine Research; as packed in `ISLP 0.6.0
    <https://pypi.org/project/ISLP/0.6.0/>`_.
    """

    name: ClassVar[str] = "caravan"
    description: ClassVar[str] = (
        "5,822 customers of an insurer, 6 % of whom bought a caravan policy (positive). The "
        "non-label party holds the demography of their area, the label party their policies."
    )

    @override
    def non_label_party_table(self) -> PartyTable:
        """The demography of each client's area: 43 columns.

        Raises:
            DataError: the file is not there, or is another than the known one.
        """
        rows = _rows(NON_LABEL_PARTY, "M")
        codes = [pl.col(name).cast(pl.String) for name in _CODES]
        return PartyTable(NON_LABEL_PARTY, _ids(rows), rows.drop("row").with_columns(codes))

    @override
    def label_party_table(self) -> PartyTable:
        """Each client's policies, 42 columns, and whether the client bought.

        Raises:
            DataError: the file is not there, or is another than the known one.
        """
        rows = _rows(LABEL_PARTY, "PA", _LABEL)
        labels = torch.tensor((rows[_LABEL] == "Yes").to_list()).long()
        return PartyTable(LABEL_PARTY, _ids(rows), rows.drop("row", _LABEL), labels)


def _rows(party: PartyName, initials: str, label: str | None = None) -> pl.DataFrame:
    """One party's columns and a column ``row`` with the row number, in the party's own order."""
    path = _file(party)
    header = pl.read_csv(path, n_rows=0).columns
    wanted = [name for name in header if name[0] in initials and name.isupper()]
    rows = pl.read_csv(path, columns=wanted + ([label] if label else []), row_index_name="row")
    if rows.height != _ROWS or len(wanted) != (43 if party == NON_LABEL_PARTY else 42):
        raise DataError(
            f"{party}: {path} has {rows.height} rows and {len(wanted)} columns of this party, not "
            f"those of the known file ({_ROWS} rows). Install another release: "
            "pip install --no-deps ISLP==0.6.0"
        )
    return rows[permutation(_ROWS, _ORDER[party])]


def _ids(rows: pl.DataFrame) -> tuple[str, ...]:
    """The client's name from the row number in the file, from 1."""
    return tuple(f"client-{row + 1:05d}" for row in rows["row"])


def _file(party: PartyName) -> Path:
    """Where the installed wheel keeps the file. ISLP is never imported: it needs much, we nothing.

    Raises:
        DataError: ISLP or its file is not installed.
    """
    found = importlib.util.find_spec("ISLP")
    for folder in (found.submodule_search_locations or []) if found else []:
        path = Path(folder) / "data" / "Caravan.csv"
        if path.is_file():
            return path
    raise DataError(
        f"{party}: the caravan data are not installed. They come with the ISLP package: "
        "pip install --no-deps ISLP"
    )
