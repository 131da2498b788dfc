"""An image file as the two parties' records: images here, labels there."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.errors import DataError
from cutlayer.transcript.array_file import ArrayFile

ID, IMAGE, TARGET = "isic_id", "jpeg", "target"
"""Columns of a Parquet file of images."""


def read_images(path: Path, side: int | None) -> tuple[TensorRecords, TensorRecords]:
    """Read images and labels.

    ``.npz`` holds ``x`` (uint8, ``(images, height, width, 3)``), ``y`` (0 or 1) and if it likes
    ``isic_id``; ``.parquet`` holds the columns ``isic_id``, ``jpeg`` (the file's bytes) and
    ``target``.

    Args:
        path: the file.
        side: what to resize to, as a square; ``None`` keeps the size.

    Returns:
        The label party's records, without features, and the non-label party's, values in [0, 1],
        shape ``(images, 3, height, width)``.

    Raises:
        DataError: the file is missing or damaged, or holds other arrays.
    """
    try:
        pixels, labels, ids = _parquet(path) if path.suffix == ".parquet" else _npz(path)
    except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{path} cannot be read as images ({error}). Give an .npz with x and y, or a .parquet "
            f"with {ID}, {IMAGE} and {TARGET}."
        ) from error
    values = pixels.permute(0, 3, 1, 2).float() / 255
    if side is not None:
        values = functional.interpolate(
            values, size=(side, side), mode="bilinear", antialias=True, align_corners=False
        ).clamp(0, 1)
    nothing = torch.zeros(len(ids), 0)
    return (
        TensorRecords(LABEL_PARTY, ids, nothing, labels.long()),
        TensorRecords(NON_LABEL_PARTY, ids, values),
    )


def _npz(path: Path) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Pixels, labels and ids of an ``.npz``."""
    arrays = ArrayFile(path).read()
    pixels, labels = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
    named = arrays[ID] if ID in arrays else np.arange(len(labels))
    if pixels.ndim != 4 or pixels.shape[-1] != 3 or pixels.dtype != torch.uint8:
        raise ValueError(f"x must be uint8 (images, height, width, 3), got {tuple(pixels.shape)}")
    return pixels, labels, tuple(str(name) for name in named)


def _parquet(path: Path) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Pixels, labels and ids of a Parquet file of JPEGs of one size."""
    frame = pl.read_parquet(path, columns=[ID, IMAGE, TARGET])
    pixels = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in frame[IMAGE]]
    labels = torch.from_numpy(frame[TARGET].cast(pl.Int64).to_numpy(writable=True))
    return torch.from_numpy(np.stack(pixels)), labels, tuple(frame[ID].cast(pl.String))
