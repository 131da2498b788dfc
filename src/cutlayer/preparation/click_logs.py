"""The known click logs, Criteo and Avazu, as they are downloaded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cutlayer.data.party_table import LABEL_PARTY
from cutlayer.data.tables.file_message import FileMessage, listing
from cutlayer.preparation.layout import HOUR_OF_DAY, WEEKDAY, Layout
from cutlayer.preparation.raw_table import RawTable, header_of, require_file, text_table
from cutlayer.preparation.text_blocks import Position

CRITEO_NUMBERS: Final = tuple(f"I{number}" for number in range(1, 14))
CRITEO_CATEGORIES: Final = tuple(f"C{number}" for number in range(1, 27))
CRITEO_CUT: Final = ("I*",)
AVAZU_CUT: Final = ("site_*", "app_*", "banner_pos", WEEKDAY, HOUR_OF_DAY)
AVAZU_COLUMNS: Final = (
    *("id", "click", "hour", "C1", "banner_pos"),
    *("site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category"),
    *("device_id", "device_ip", "device_model", "device_type", "device_conn_type"),
    *(f"C{number}" for number in range(14, 22)),
)

_BINARY_LABEL: Final = {"1": 1, "0": 0}


def criteo(path: Path, label_party: Sequence[str] = CRITEO_CUT) -> RawTable:
    """A Criteo click log: label, I1 to I13, C1 to C26, tab-separated, no header; plain or gzip.

    Args:
        path: ``train.txt`` of the Kaggle set, or a day of the 1 TB set.
        label_party: features of the label party, as names or shell patterns.

    Raises:
        ConfigurationError: a pattern fits no column, or nothing is left for the non-label party.
        DataError: there is no such file.
    """
    require_file(path)
    layout = Layout(
        names=("label", *CRITEO_NUMBERS, *CRITEO_CATEGORIES),
        id_column=None,
        label_column="label",
        numbers=CRITEO_NUMBERS,
        categories=CRITEO_CATEGORIES,
        label_values=_BINARY_LABEL,
        whole=True,
        hexadecimal=True,
    )
    return text_table("criteo", path, layout, label_party, delimiter="\t", start=Position())


def avazu(path: Path, label_party: Sequence[str] = AVAZU_CUT) -> RawTable:
    """The Avazu click log: CSV with 24 columns, ``click`` is the label; plain or gzip.

    Ids stay texts, as they are larger than 64 bits hold. ``hour`` (YYMMDDHH) becomes ``weekday``
    (1 is Monday) and ``hour`` (00 to 23). All features are categories.

    Args:
        path: ``train`` of the Kaggle set.
        label_party: features of the label party, as names or shell patterns.

    Raises:
        ConfigurationError: a pattern fits no column, or nothing is left for the non-label party.
        DataError: there is no such file, or its header lacks a column.
    """
    header = header_of(path, delimiter=",", quote="")
    names = header.names
    absent = [name for name in AVAZU_COLUMNS if name not in names]
    if absent:
        raise FileMessage(LABEL_PARTY, path).error(
            f"must have the 24 columns of Avazu's train file, but {listing(absent)} is not in the "
            "header. For another table use the command table."
        )
    plain = tuple(name for name in AVAZU_COLUMNS if name not in ("id", "click", "hour"))
    layout = Layout(
        names=names,
        id_column="id",
        label_column="click",
        numbers=(),
        categories=(WEEKDAY, HOUR_OF_DAY, *plain),
        label_values=_BINARY_LABEL,
        time_column="hour",
    )
    return text_table("avazu", path, layout, label_party, delimiter=",", start=header.start)
