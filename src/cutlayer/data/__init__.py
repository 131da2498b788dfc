"""What the parties train on: tables, their encoding, splits, batches, and known data sets."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.data.bundled.breast_cancer import BreastCancer
    from cutlayer.data.bundled.caravan import Caravan
    from cutlayer.data.bundled.datasets import DATASETS
    from cutlayer.data.bundled.synthetic_ctr import SyntheticCtr
    from cutlayer.data.encoding import Encoder
    from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName, PartyTable
    from cutlayer.data.prepared import PreparedData
    from cutlayer.data.schedule import BatchSchedule, MicroBatch
    from cutlayer.data.split import Split, fold_of
    from cutlayer.data.tables.column_choice import ROW_NUMBER
    from cutlayer.data.tables.table_assembly import TableReading
    from cutlayer.data.tables.table_file import TableFile
    from cutlayer.data.text_sequence import TextSequence
    from cutlayer.data.vertical_data import DataSet, VerticalData

__all__ = [
    "DATASETS",
    "LABEL_PARTY",
    "NON_LABEL_PARTY",
    "ROW_NUMBER",
    "BatchSchedule",
    "BreastCancer",
    "Caravan",
    "DataSet",
    "Encoder",
    "MicroBatch",
    "PartyName",
    "PartyTable",
    "PreparedData",
    "Split",
    "SyntheticCtr",
    "TableFile",
    "TableReading",
    "TextSequence",
    "VerticalData",
    "fold_of",
]

__getattr__ = lazily(
    __name__,
    {
        "bundled.breast_cancer": ("BreastCancer",),
        "bundled.caravan": ("Caravan",),
        "tables.column_choice": ("ROW_NUMBER",),
        "encoding": ("Encoder",),
        "party_table": (
            "LABEL_PARTY",
            "NON_LABEL_PARTY",
            "PartyName",
            "PartyTable",
        ),
        "prepared": ("PreparedData",),
        "schedule": (
            "BatchSchedule",
            "MicroBatch",
        ),
        "split": (
            "Split",
            "fold_of",
        ),
        "bundled.synthetic_ctr": ("SyntheticCtr",),
        "tables.table_assembly": ("TableReading",),
        "tables.table_file": ("TableFile",),
        "text_sequence": ("TextSequence",),
        "vertical_data": (
            "DataSet",
            "VerticalData",
        ),
        "bundled.datasets": ("DATASETS",),
    },
)
