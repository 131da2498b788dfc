"""Checkpoints: what a party keeps of its half, as safetensors and JSON. No pickle."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from cutlayer.data import Encoder
from cutlayer.descriptors import descriptors_for_a_file
from cutlayer.durable import storage, sync, whole_file, write_tensors
from cutlayer.errors import DataError
from cutlayer.protocol import Role

_PROTECTION_FILE, _MANIFEST = "protection.safetensors", "checkpoint.json"
_ENCODER_FILE = "encoder.json"
_STEP = "step"
_KEPT = 3


@contextmanager
def naming(role: Role) -> Iterator[None]:
    """Say whose kept half it is that cannot be used."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{role.value}: {error}") from error


def save_half(
    folder: Path, halves: Mapping[str, nn.Module], encoder: Encoder | None, *, step: int = 0
) -> None:
    """Write each module as ``NAME.safetensors``, and the encoder if there is one beside it.

    Each file is written whole or not at all.

    Args:
        folder: of the run.
        halves: modules by name.
        encoder: of the own features; ``None`` for tensor records.
        step: how many steps of the loop the halves have learnt from; kept in each file.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    for name, half in halves.items():
        path = folder / f"{name}.safetensors"
        write_tensors(path, half.state_dict(), {_STEP: str(step)})
    if encoder is not None:
        with whole_file(folder / _ENCODER_FILE) as partial:
            partial.write_text(encoder.to_json(), encoding="utf-8")


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
            # Torch's first line names the class, each other one a tensor.
            first = next((line.strip() for line in str(error).splitlines()[1:]), str(error))
            raise DataError(
                f"{path} does not fit this model: {first} Use the settings that the run began with "
                "(model, hidden, cut_width), or begin a run of another name."
            ) from error


def step_of_half(folder: Path) -> int:
    """After how many steps :func:`save_half` kept the modules in a folder.

    Returns:
        Their number; 0 where there is no loop, or an earlier version kept them.

    Raises:
        DataError: a file is damaged, or the files were kept after different steps.
    """
    steps = {path.name: _step_kept_in(path) for path in sorted(folder.glob("*.safetensors"))}
    if len(set(steps.values())) > 1:
        kept = ", ".join(f"{name} after step {step}" for name, step in steps.items())
        raise DataError(
            f"{folder} holds parts of different trainings ({kept}). Start the training command "
            "again at both parties; it finishes what was interrupted."
        )
    return max(steps.values(), default=0)


def load_encoder(folder: Path) -> Encoder:
    """The encoder that :func:`save_half` kept.

    Raises:
        DataError: it is missing or damaged.
    """
    path = folder / _ENCODER_FILE
    try:
        return Encoder.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _missing(path) from error
    except (OSError, ValueError, KeyError, TypeError, DataError) as error:
        raise DataError(f"{path} cannot be read ({error}). Train again.") from error


class CheckpointStore:
    """Complete states of a party after so many steps, the newest three of them.

    ::

        folder/step-0000000400/NAME.safetensors             weights
                               NAME.optimizer.safetensors   what the optimizer remembers
                               protection.safetensors       what a protection remembers
                               checkpoint.json              SHA-256 of each of these files

    A checkpoint appears under its name only when all of it is on disk, and one whose files do not
    have their hashes is as good as none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sound: dict[int, bool] = {}

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps after which a sound state was kept, rising; 0 is the state before the first."""
        return tuple(step for step in self._named if self._is_sound(step))

    @property
    def damaged(self) -> tuple[Path, ...]:
        """Folders of checkpoints that cannot be used."""
        return tuple(self._path(step) for step in self._named if not self._is_sound(step))

    def save(
        self,
        step: int,
        halves: Mapping[str, nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
        protection: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Keep the state after ``step`` steps.

        Raises:
            StorageError: it cannot be written; older checkpoints stay.
        """
        partial = self._folder / f"partial-{step:010d}"
        with storage(partial), descriptors_for_a_file():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            for name, half in halves.items():
                write_tensors(partial / f"{name}.safetensors", half.state_dict())
            for name, optimizer in optimizers.items():
                write_tensors(
                    partial / f"{name}.optimizer.safetensors", _optimizer_tensors(optimizer)
                )
            write_tensors(partial / _PROTECTION_FILE, protection or {})
            with whole_file(partial / _MANIFEST) as manifest:
                manifest.write_text(json.dumps(_hashes(partial), sort_keys=True), encoding="utf-8")
            shutil.rmtree(self._path(step), ignore_errors=True)
            partial.rename(self._path(step))
            sync(self._folder)
        self._sound[step] = True
        for old in self.steps[:-_KEPT]:
            shutil.rmtree(self._path(old), ignore_errors=True)

    def load(
        self,
        step: int,
        halves: Mapping[str, nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
    ) -> dict[str, Tensor]:
        """Put a kept state into modules and optimizers of the same shape.

        Returns:
            What the protection remembered.

        Raises:
            DataError: a file is missing, damaged, or belongs to other settings.
        """
        load_weights(self._path(step), halves)
        for name, optimizer in optimizers.items():
            path = self._path(step) / f"{name}.optimizer.safetensors"
            _fill_optimizer(optimizer, _read(path), path)
        return self.protection_state(step)

    def protection_state(self, step: int) -> dict[str, Tensor]:
        """What the protection remembered after ``step`` steps.

        Raises:
            DataError: the file is missing or damaged.
        """
        return _read(self._path(step) / _PROTECTION_FILE)

    @property
    def _named(self) -> list[int]:
        """Steps of all checkpoints that are there, rising."""
        names = (path.name.removeprefix("step-") for path in self._folder.glob("step-*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _is_sound(self, step: int) -> bool:
        """Whether the files of a checkpoint have their hashes; looked at once."""
        if step not in self._sound:
            try:
                manifest = (self._path(step) / _MANIFEST).read_text(encoding="utf-8")
                self._sound[step] = json.loads(manifest) == _hashes(self._path(step))
            except (OSError, ValueError):
                self._sound[step] = False
        return self._sound[step]

    def _path(self, step: int) -> Path:
        """Where the state after so many steps is kept."""
        return self._folder / f"step-{step:010d}"


def _hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each tensor file, by name."""
    hashes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


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


def _missing(path: Path) -> DataError:
    """The error for a half that was never kept."""
    return DataError(
        f"There is no {path}: the run has not ended, or another folder holds it. Train to the end, "
        "or name the run's folder."
    )


def _step_kept_in(path: Path) -> int:
    """The step that one file of a half names."""
    try:
        with safe_open(path, framework="pt") as file:
            return int((file.metadata() or {}).get(_STEP, "0"))
    except (OSError, SafetensorError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}). Train again.") from error


def _read(path: Path) -> dict[str, Tensor]:
    """Read tensors, or say which file is the trouble."""
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise _missing(path) from error
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read ({error}). Train again.") from error
