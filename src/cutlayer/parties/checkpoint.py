"""Checkpoints: what a party keeps of its half, as safetensors and JSON. No pickle."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

from cutlayer.data import Encoder
from cutlayer.errors import DataError

_ENCODER_FILE = "encoder.json"


def save_half(folder: Path, halves: Mapping[str, nn.Module], encoder: Encoder) -> None:
    """Write each module as ``NAME.safetensors`` and the encoder beside it, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, half in halves.items():
        partial = folder / f"{name}.partial"
        save_file({key: value.contiguous() for key, value in half.state_dict().items()}, partial)
        partial.replace(folder / f"{name}.safetensors")
    partial = folder / f"{_ENCODER_FILE}.partial"
    partial.write_text(encoder.to_json())
    partial.replace(folder / _ENCODER_FILE)


def load_half(folder: Path, halves: Mapping[str, nn.Module]) -> Encoder:
    """Fill modules with what :func:`save_half` kept, and give the encoder back.

    Raises:
        DataError: a file is missing, is damaged, or belongs to a module of another shape.
    """
    for name, half in halves.items():
        path = folder / f"{name}.safetensors"
        try:
            half.load_state_dict(load_file(path))
        except Exception as error:  # safetensors raises its own type, torch RuntimeError
            raise DataError(f"{path} cannot be loaded into this model ({error}).") from error
    try:
        return Encoder.from_json((folder / _ENCODER_FILE).read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / _ENCODER_FILE} cannot be read ({error}).") from error
