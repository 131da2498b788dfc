"""From raw data as downloaded to shards that the parties read: tables, click logs, images."""

from cutlayer.data.preparation.any_table import TableColumns, table
from cutlayer.data.preparation.click_logs import AVAZU_CUT, CRITEO_CUT, avazu, criteo
from cutlayer.data.preparation.image_preparation import prepare_images
from cutlayer.data.preparation.options import ImageOptions, Progress, SplitOptions, TableOptions
from cutlayer.data.preparation.output import Prepared
from cutlayer.data.preparation.raw_images import RawImages, raw_images
from cutlayer.data.preparation.raw_table import RawTable
from cutlayer.data.preparation.table_preparation import prepare_table

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
