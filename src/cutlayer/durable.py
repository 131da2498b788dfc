"""Durable files: whole or absent whatever happens, and on the disk before anybody relies on them.

Every failure of the disk is one typed error.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from cutlayer.descriptors import descriptors_for_a_file
from cutlayer.errors import ConfigurationError, StorageError
from cutlayer.extras import needing

if TYPE_CHECKING:
    from torch import Tensor

PARTIAL = ".partial"
"""Suffix of a file that is being written; left-overs of a crash may be deleted."""
OWNER_ALONE = 0o600
"""Mode of a file that nobody else may read."""
LOCK_FILE = "lock"
"""Name of the empty file in a folder that belongs to one process at a time."""
_LOCK_ATTEMPTS, _LOCK_PAUSE_SECONDS = 6, 0.1


@contextmanager
def storage(path: Path, doing: str = "write") -> Iterator[None]:
    """Turn the operating system's complaints about a file or folder into ours.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"Cannot {doing} {path}: {reason}. Nothing that depends on it has left this machine. "
            "Give it room or access, then start the same command again."
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to; the file gets its name, durably, when the block ends without an error.

    It is for its owner alone, whatever the mode of the file that it replaces: what a party keeps
    holds ids, labels, or what follows from them.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    with storage(path), descriptors_for_a_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + PARTIAL)
        make_private(partial)
        yield partial
        sync(partial)
        partial.replace(path)
        sync(path.parent)


def write_tensors(
    path: Path, tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file; ``path`` holds either all of them or what it held before.

    Args:
        path: the file.
        tensors: any dtypes and devices; kept bit for bit.
        metadata: short texts beside them.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    with needing():
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    # Clones, since safetensors refuses tensors that share memory, such as tied weights.
    owned = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    with whole_file(path) as partial:
        try:
            save_file(owned, partial, metadata=dict(metadata) if metadata else None)
        except SafetensorError as error:  # its word for a full disk
            raise OSError(str(error)) from error


def create_private(path: Path, content: bytes) -> bytes:
    """Write a secret for its owner alone, unless the file exists; returns what the file holds.

    Two processes that do this at once come to the same content.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    with storage(path), descriptors_for_a_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(suffix=PARTIAL, dir=path.parent)  # readable by its owner
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(name, path)
        except FileExistsError:
            return path.read_bytes()
        finally:
            Path(name).unlink()
        sync(path.parent)
    return content


@contextmanager
def only_process(folder: Path, named_by: str) -> Iterator[None]:
    """Keep other processes out of a folder; the system frees it when this one dies.

    Args:
        folder: made if it does not exist, and removed again if nothing comes to lie in it.
        named_by: the party, or the option, that named the folder; for the error.

    Raises:
        ConfigurationError: another process works in it.
        StorageError: the disk is full or broken, or access is denied.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder / LOCK_FILE)
    if lock is None:
        raise ConfigurationError(
            f"{named_by}: another process is working on {folder}. Wait for it to end, or name "
            "another folder."
        )
    with lock:
        try:
            yield
        finally:
            if made and [path.name for path in folder.iterdir()] == [LOCK_FILE]:
                _remove_empty(made)


def _locked(path: Path) -> BinaryIO | None:
    """A lock file that this process holds; ``None`` where another one keeps it."""
    for attempt in range(_LOCK_ATTEMPTS):
        if attempt:
            time.sleep(_LOCK_PAUSE_SECONDS)  # it may only have been looked at
        path.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, OWNER_ALONE)
        lock = cast(BinaryIO, os.fdopen(number, "ab"))
        with suppress(OSError):  # another user's, perhaps; an earlier version's may be wider
            os.fchmod(number, OWNER_ALONE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and path.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                return lock
        except BlockingIOError:
            pass
        lock.close()  # held by another, or of a folder that another has removed again
    return None


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders that hold nothing but a lock, the innermost first."""
    with suppress(OSError):
        (folders[0] / LOCK_FILE).unlink()
        for folder in folders:
            folder.rmdir()


def in_use(folder: Path) -> bool:
    """Whether another process works in a folder; changes nothing there."""
    if not (folder / LOCK_FILE).exists():
        return False
    with storage(folder, "read"):
        lock = (folder / LOCK_FILE).open("rb")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def make_private(path: Path) -> None:
    """Make a file for its owner alone, empty, in place of one that a crash may have left."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ALONE))


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
