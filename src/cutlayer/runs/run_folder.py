"""The run folder: for its owner alone, and not a folder of other things that others use."""

import stat
from pathlib import Path

from cutlayer.durable import LOCK_FILE, PARTIAL, storage
from cutlayer.errors import ConfigurationError
from cutlayer.parties.persistence import CHECKPOINTS_FOLDER, JOURNAL_FILE, KEY_FILE
from cutlayer.runs.configuration import PartyConfiguration

_OTHERS, _OWNER = 0o077, 0o700
_SHOWN = 3


def make_private(configuration: PartyConfiguration) -> None:
    """Make the run's folder readable by its owner alone: it tells about labels.

    Raises:
        ConfigurationError: it is a folder of other files as well, which others may use.
        StorageError: the disk is full or broken, or access is denied.
    """
    folder = configuration.run_folder
    require_own(configuration)
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(_OWNER)


def require_own(configuration: PartyConfiguration) -> None:
    """Refuse a folder that would be closed to others although other things lie in it.

    Raises:
        ConfigurationError: it is one.
    """
    folder = configuration.run_folder
    with storage(folder, "read"):
        if not folder.is_dir() or not _is_open(folder):
            return
        if any((folder / name).exists() for name in (KEY_FILE, JOURNAL_FILE, CHECKPOINTS_FOLDER)):
            return  # it was a run's before
        others = sorted(path.name for path in folder.iterdir() if not _is_own(configuration, path))
    if others:
        named = ", ".join(repr(name) for name in others[:_SHOWN])
        raise ConfigurationError(
            f"{configuration.role.value}: folder: {folder} is open to others and holds what is not "
            f"of this run: {named}{' and more' if len(others) > _SHOWN else ''}. A run's folder is "
            f"for its owner alone. Name one of its own, or close this one: `chmod 700 {folder}`."
        )


def _is_open(folder: Path) -> bool:
    """Whether others than its owner have rights in it."""
    return bool(stat.S_IMODE(folder.stat().st_mode) & _OTHERS)


def _is_own(configuration: PartyConfiguration, path: Path) -> bool:
    """Whether a file may lie in the folder before the run does: its lock, its ids, its log."""
    names = {LOCK_FILE, configuration.aligned_ids_file.name}
    if configuration.log is not None:
        names.add(configuration.log.name)
    return path.name in names or path.suffix == PARTIAL
