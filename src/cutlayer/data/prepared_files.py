"""The files of prepared data, as those who write them and those who read them call them."""

from typing import Final

FORMAT: Final = 1
"""Of the whole folder; one that is of another format is not read."""
SCHEMA_FILE: Final = "schema.json"
MAX_CODES: Final = 2**24
"""Codes of a column: they are read as float32, which holds whole numbers exactly up to here."""


def shard_name(number: int, ending: str = "parquet") -> str:
    """The file of a shard in the folder of a party.

    >>> shard_name(3)
    'part-00003.parquet'
    """
    return f"part-{number:05d}.{ending}"
