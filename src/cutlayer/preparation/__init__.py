"""From raw data as downloaded to shards that the parties read: tables, click logs, images."""

from cutlayer.preparation.any_table import TableColumns, table
from cutlayer.preparation.click_logs import AVAZU_CUT, CRITEO_CUT, avazu, criteo
from cutlayer.preparation.image_preparation import prepare_images
from cutlayer.preparation.options import ImageOptions, Progress, SplitOptions, TableOptions
from cutlayer.preparation.output import Prepared
from cutlayer.preparation.raw_images import RawImages, raw_images
from cutlayer.preparation.raw_table import RawTable
from cutlayer.preparation.table_preparation import prepare_table

__all__ = [
    "AVAZU_CUT",
    "CRITEO_CUT",
    "ImageOptions",
    "Prepared",
    "Progress",
    "RawImages",
    "RawTable",
    "SplitOptions",
    "TableColumns",
    "TableOptions",
    "avazu",
    "criteo",
    "prepare_images",
    "prepare_table",
    "raw_images",
    "table",
]
