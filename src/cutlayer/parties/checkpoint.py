"""Checkpoints: what a party keeps of its half, as safetensors and JSON. No pickle."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cutlayer.data import Encoder
from cutlayer.errors import DataError

_ENCODER_FILE = "encoder.json"
_KEPT = 3


def save_half(folder: Path, halves: Mapping[str, nn.Module], encoder: Encoder | None) -> None:
    """Write each module as ``NAME.safetensors``, and the encoder if there is one beside it.

    Each file is written whole or not at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, half in halves.items():
        _write(folder / f"{name}.safetensors", half.state_dict())
    if encoder is not None:
        partial = folder / f"{_ENCODER_FILE}.partial"
        partial.write_text(encoder.to_json(), encoding="utf-8")
        partial.replace(folder / _ENCODER_FILE)


def load_weights(folder: Path, halves: Mapping[str, nn.Module]) -> None:
    """Fill modules with what :func:`save_half` kept.

    Raises:
        DataError: a file is missing, damaged, or belongs to a module of another shape.
    """
    for name, half in halves.items():
        path = folder / f"{name}.safetensors"
        try:
            half.load_state_dict(_read(path))
        except RuntimeError as error:
            raise DataError(
                f"{path} does not fit this model ({error}). Use the settings of the run that wrote "
                "it."
            ) from error


def load_encoder(folder: Path) -> Encoder:
    """The encoder that :func:`save_half` kept.

    Raises:
        DataError: it is missing or damaged.
    """
    path = folder / _ENCODER_FILE
    try:
        return Encoder.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, DataError) as error:
        raise DataError(f"{path} cannot be read ({error}). Train again.") from error


class CheckpointStore:
    """Complete states of a party at the ends of epochs, the newest three of them.

    ::

        folder/epoch-000004/NAME.safetensors             weights
                            NAME.optimizer.safetensors   what the optimizer remembers

    A checkpoint appears under its name only when all of it is on disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def epochs(self) -> tuple[int, ...]:
        """Epochs that were finished and kept, rising."""
        names = (path.name.removeprefix("epoch-") for path in self._folder.glob("epoch-*"))
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    def save(
        self,
        epoch: int,
        halves: Mapping[str, nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
    ) -> None:
        """Keep the state after ``epoch`` finished epochs."""
        partial = self._folder / f"partial-{epoch:06d}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, half in halves.items():
            _write(partial / f"{name}.safetensors", half.state_dict())
        for name, optimizer in optimizers.items():
            _write(partial / f"{name}.optimizer.safetensors", _optimizer_tensors(optimizer))
        shutil.rmtree(self._path(epoch), ignore_errors=True)
        partial.rename(self._path(epoch))
        for old in self.epochs[:-_KEPT]:
            shutil.rmtree(self._path(old), ignore_errors=True)

    def load(
        self,
        epoch: int,
        halves: Mapping[str, nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
    ) -> None:
        """Put a kept state into modules and optimizers of the same shape.

        Raises:
            DataError: a file is missing, damaged, or belongs to other settings.
        """
        load_weights(self._path(epoch), halves)
        for name, optimizer in optimizers.items():
            path = self._path(epoch) / f"{name}.optimizer.safetensors"
            _fill_optimizer(optimizer, _read(path), path)

    def forget_after(self, epoch: int) -> None:
        """Drop checkpoints beyond an epoch that the parties went back to."""
        for later in self.epochs:
            if later > epoch:
                shutil.rmtree(self._path(later))

    def _path(self, epoch: int) -> Path:
        """Where an epoch's state is kept."""
        return self._folder / f"epoch-{epoch:06d}"


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimizer remembers of each parameter, as named tensors."""
    return {
        f"{index}.{key}": value if isinstance(value, Tensor) else torch.tensor(value)
        for index, remembered in optimizer.state_dict()["state"].items()
        for key, value in remembered.items()
        if value is not None
    }


def _fill_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], path: Path
) -> None:
    """Give an optimizer of the same kind back what another remembered."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    try:
        optimizer.load_state_dict(
            {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
        )
    except (ValueError, KeyError) as error:
        raise DataError(f"{path} belongs to another optimizer ({error}).") from error


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors so that the file is whole once it has its name."""
    partial = path.with_name(path.name + ".partial")
    # Clones, since safetensors refuses tensors that share memory, such as tied weights.
    save_file(
        {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}, partial
    )
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def _read(path: Path) -> dict[str, Tensor]:
    """Read tensors, or say which file is the trouble."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read ({error}). Train again.") from error
