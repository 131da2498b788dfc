"""What the parties train on: tables, their encoding, splits, batches, and known data sets."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.data.alignment import Alignment, alignment_hash, id_digests, shared_ids
    from cutlayer.data.breast_cancer import BreastCancer
    from cutlayer.data.caravan import Caravan
    from cutlayer.data.column_choice import ROW_NUMBER
    from cutlayer.data.datasets import DATASETS
    from cutlayer.data.encoding import Encoder
    from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName, PartyTable
    from cutlayer.data.prepared import PreparedData
    from cutlayer.data.schedule import BatchSchedule, MicroBatch
    from cutlayer.data.split import Split, fold_of
    from cutlayer.data.synthetic_ctr import SyntheticCtr
    from cutlayer.data.table_assembly import TableReading
    from cutlayer.data.table_file import TableFile
    from cutlayer.data.text_sequence import TextSequence
    from cutlayer.data.vertical_data import DataSet, VerticalData

__all__ = [
    "DATASETS",
    "LABEL_PARTY",
    "NON_LABEL_PARTY",
    "ROW_NUMBER",
    "Alignment",
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
    "alignment_hash",
    "fold_of",
    "id_digests",
    "shared_ids",
]

__getattr__ = lazily(
    __name__,
    {
        "alignment": (
            "Alignment",
            "alignment_hash",
            "id_digests",
            "shared_ids",
        ),
        "breast_cancer": ("BreastCancer",),
        "caravan": ("Caravan",),
        "column_choice": ("ROW_NUMBER",),
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
        "synthetic_ctr": ("SyntheticCtr",),
        "table_assembly": ("TableReading",),
        "table_file": ("TableFile",),
        "text_sequence": ("TextSequence",),
        "vertical_data": (
            "DataSet",
            "VerticalData",
        ),
        "datasets": ("DATASETS",),
    },
)
