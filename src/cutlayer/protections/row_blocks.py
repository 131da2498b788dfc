"""Working on a batch in blocks of rows that stay in the processor's cache."""

from collections.abc import Iterator

from torch import Tensor

_BLOCK_VALUES = 32768


def in_row_blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Views of the same rows of several tensors, block after block.

    On a CPU fresh memory costs more than the arithmetic, so a block fits its cache; elsewhere all
    rows are one block.

    Args:
        tensors: as many rows each; the first, ``(rows, width)``, decides how many make a block.
    """
    rows, width = tensors[0].shape
    step = max(1, _BLOCK_VALUES // width) if tensors[0].device.type == "cpu" else rows
    return zip(*(tensor.split(step) for tensor in tensors), strict=True)
