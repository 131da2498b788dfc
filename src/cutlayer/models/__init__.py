"""Bottom and top halves."""

from cutlayer.models.cnn import ConvTop, conv_blocks
from cutlayer.models.coded_columns import CodedColumns
from cutlayer.models.columns import Columns, OneHotColumns
from cutlayer.models.frozen_projection import Carried, frozen_projection
from cutlayer.models.mlp import Top, mlp
from cutlayer.models.row_adam import RowAdam
from cutlayer.models.row_independence import require_row_independence, require_uncoupled_top
from cutlayer.models.wide_deep import WideDeepBottom, WideDeepTop

__all__ = [
    "Carried",
    "CodedColumns",
    "Columns",
    "ConvTop",
    "OneHotColumns",
    "RowAdam",
    "Top",
    "WideDeepBottom",
    "WideDeepTop",
    "conv_blocks",
    "frozen_projection",
    "mlp",
    "require_row_independence",
    "require_uncoupled_top",
]
