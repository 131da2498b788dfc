"""Breast cancer: cell nuclei of 569 patients, and whose tumour is malignant."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from typing_extensions import override

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyTable
from cutlayer.data.shared_draws import permutation
from cutlayer.data.vertical_data import DataSet

# Each party's rows stand in another order, as in real life: only the ids bring them together.
_ORDER = {NON_LABEL_PARTY: 1, LABEL_PARTY: 2}


@dataclass(frozen=True)
class BreastCancer(DataSet):
    """569 patients, 212 with a malignant tumour (positive); comes with scikit-learn.

    The non-label party holds the 10 ``mean`` columns, the label party the 10 ``error`` columns and
    the diagnosis. The 10 ``worst`` columns are left out: either party would predict nearly all
    with them alone, and there would be nothing to train together.

    scikit-learn reads one file with all columns, so here, other than with real tables, the
    process of a party does touch the other's columns; it keeps none of them.

    Source: Wolberg, Mangasarian, Street (1995), Breast Cancer Wisconsin (Diagnostic), UCI.
    """

    name: ClassVar[str] = "breast-cancer"
    description: ClassVar[str] = (
        "569 patients, 37 % with a malignant tumour (positive). The non-label party holds the mean "
        "measures of their cell nuclei, the label party the measures' standard errors."
    )

    @override
    def non_label_party_table(self) -> PartyTable:
        """Mean measures of the cell nuclei: 10 columns."""
        features, _ = _columns("mean ", "")
        order = permutation(features.height, _ORDER[NON_LABEL_PARTY])
        return PartyTable(NON_LABEL_PARTY, _ids(order), features[order])

    @override
    def label_party_table(self) -> PartyTable:
        """Standard errors of the measures, 10 columns, and the diagnosis."""
        features, malignant = _columns("", " error")
        order = permutation(features.height, _ORDER[LABEL_PARTY])
        labels = torch.from_numpy(malignant[order])
        return PartyTable(LABEL_PARTY, _ids(order), features[order], labels)


def _columns(prefix: str, suffix: str) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """The measures whose name begins and ends so, and 1 for malignant, in the file's order."""
    from sklearn.datasets import load_breast_cancer  # here: it takes long to load

    bunch = load_breast_cancer()
    chosen = {
        str(name): bunch.data[:, place]
        for place, name in enumerate(bunch.feature_names)
        if name.startswith(prefix) and name.endswith(suffix)
    }
    return pl.DataFrame(chosen), (bunch.target == 0).astype(np.int64)


def _ids(order: NDArray[np.int64]) -> tuple[str, ...]:
    """The patient's name from the row number in the file, from 1."""
    return tuple(f"patient-{row + 1:03d}" for row in order.tolist())
