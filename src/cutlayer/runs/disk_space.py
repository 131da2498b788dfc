"""Disk space: how much of the disk a run will take, and whether that much is free."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from cutlayer.data import Encoder, PartyTable
from cutlayer.errors import StorageError
from cutlayer.parties import InputShape
from cutlayer.parties.inputs import category_slots
from cutlayer.parties.release_journal import ENTRY_BYTES
from cutlayer.protections import Residual
from cutlayer.runs.configuration import FROZEN, LabelConfiguration, PartyConfiguration
from cutlayer.runs.model_factory import build_bottom, build_top

CHECKPOINTS = 4
"""Three are kept, and a fourth is there while the oldest of them still is."""
_FLOAT_BYTES = 4
_INDEX_BYTES = 8
"""Of a record's position, a step or a length."""
_RANK_BYTES = 4
"""Of a record, for the order in which records leave a recording that is too large."""
_HEAD_BYTES = 16
"""At most, of a step and its epoch in the head of a chunk, as text."""
_ADAM_MOMENTS = 2
_ROWS_LOOKED_AT = 10_000


@dataclass(frozen=True)
class DiskSpace:
    """Bytes that a run keeps in its folder."""

    checkpoints: int
    """Certain: the first state is kept before the first step."""
    journal: int
    """At most, if the peer holds all of this party's records."""
    recording: int
    """About, if the peer holds all of this party's records: the messages, at most what ``record``
    allows them, and the labels and hints beside them."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.checkpoints + self.journal + self.recording


def disk_space_for(configuration: PartyConfiguration, table: PartyTable) -> DiskSpace:
    r"""What a training with these records keeps.

    With :math:`w` bytes of weights, :math:`p` of them trained, a checkpoint is :math:`w + 2p`,
    since Adam remembers two numbers for each; there are four while one is written. The journal
    has 80 bytes for each of :math:`m U` steps in :math:`U = E \max(1, \lfloor n/B \rfloor)` updates
    of m messages.

    The recording has two rows of :math:`d` floats and a position for each of the :math:`E n`
    releases of a record, 40 bytes a step, the ids, and a rank for each record; but at most the
    limit of ``record``. Beside it stand a byte for each record's label, and for each step a known
    positive's gradient, with its step and position.

    Args:
        configuration: of this party.
        table: its records. Widths are learned from the first 10,000, so rare categories may add to
            them.

    Raises:
        ConfigurationError: the model cannot be built.
    """
    if configuration.protection == FROZEN:
        return DiskSpace(0, 0, 0)  # one round: nothing to go on from
    shape = _shape_of(table)
    state = sum(_checkpoint_bytes(half) for half in _halves(configuration, shape))
    share = 1 - configuration.validation_share - configuration.test_share
    updates = configuration.epochs * max(1, int(len(table) * share / configuration.batch_size))
    if not isinstance(configuration, LabelConfiguration):
        return DiskSpace(CHECKPOINTS * state, 0, 0)
    steps = configuration.micro_batches * updates
    recording = 0
    if configuration.record:
        released = int(configuration.epochs * len(table) * share)
        recording = _recording_bytes(configuration, table, steps, released)
    return DiskSpace(CHECKPOINTS * state, ENTRY_BYTES * steps, recording)


def disk_space_still_needed(room: DiskSpace, folder: Path) -> DiskSpace:
    """What of it is not there yet, where a run is gone on with."""
    return DiskSpace(
        max(0, room.checkpoints - _bytes_in(folder.glob("checkpoints/*/*"))),
        max(0, room.journal - _bytes_in([folder / "journal"])),
        max(0, room.recording - _bytes_in(folder.glob("messages/**/*"))),
    )


def free_bytes(folder: Path) -> int:
    """Free space for this user where a folder is, or would be made.

    Raises:
        StorageError: nobody can tell.
    """
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    try:
        return shutil.disk_usage(there).free
    except OSError as error:
        raise StorageError(f"Cannot read how much of the disk of {there} is free.") from error


def require_disk_space(configuration: PartyConfiguration, table: PartyTable) -> None:
    """Refuse to begin a run whose checkpoints cannot fit.

    Raises:
        StorageError: they cannot; nothing has been sent.
        ConfigurationError: the model cannot be built.
    """
    folder = configuration.run_folder
    needed = disk_space_still_needed(disk_space_for(configuration, table), folder).checkpoints
    free = free_bytes(folder)
    if free < needed:
        raise StorageError(
            f"{configuration.role.value}: folder: {folder} has {free:,} bytes free, and the "
            f"checkpoints of this run need {needed:,}. Nothing has been sent. Give it room, or "
            "name a folder on another disk."
        )


def _halves(configuration: PartyConfiguration, shape: InputShape) -> list[nn.Module]:
    """All that this party will train."""
    if not isinstance(configuration, LabelConfiguration):
        return [build_bottom(configuration, shape)]
    width = configuration.cut_width
    halves = [build_top(configuration, width, shape)]
    if isinstance(configuration.applied, Residual):
        halves.append(build_top(configuration, width, InputShape((0,))))
    return halves


def _shape_of(table: PartyTable) -> InputShape:
    """What a half will take in, as the first records tell."""
    first = PartyTable(
        table.party, table.ids[:_ROWS_LOOKED_AT], table.features.head(_ROWS_LOOKED_AT)
    )
    encoder = Encoder.fit(first)
    return InputShape((encoder.width,), category_slots(encoder))


def _checkpoint_bytes(half: nn.Module) -> int:
    """Weights, and what Adam remembers of them."""
    state = sum(tensor.numel() * tensor.element_size() for tensor in half.state_dict().values())
    trained = sum(weight.numel() * weight.element_size() for weight in half.parameters())
    return state + _ADAM_MOMENTS * trained


def _recording_bytes(
    configuration: LabelConfiguration, table: PartyTable, steps: int, released: int
) -> int:
    """Messages, labels and hints of so many steps, in which so many rows are released."""
    row = configuration.cut_width * _FLOAT_BYTES
    lists = sum(len(name.encode()) + _INDEX_BYTES + _RANK_BYTES for name in table.ids)
    releases = released * (2 * row + _INDEX_BYTES) + steps * (3 * _INDEX_BYTES + _HEAD_BYTES)
    labels, hints = len(table), steps * (row + 2 * _INDEX_BYTES)
    return min(int(configuration.record), lists + releases) + labels + hints


def _bytes_in(paths: Iterable[Path]) -> int:
    """Bytes of those that are files."""
    return sum(path.stat().st_size for path in paths if path.is_file())
