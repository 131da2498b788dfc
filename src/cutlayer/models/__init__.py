"""Bottom and top halves."""

from cutlayer.models.frozen_projection import frozen_projection
from cutlayer.models.mlp import Top, mlp
from cutlayer.models.row_independence import require_row_independence

__all__ = ["Top", "frozen_projection", "mlp", "require_row_independence"]
