"""The work folder: output that is whole or absent, and a run that goes on where it was killed.

Everything is written below ``OUT.partial``. A file appears there by a rename of one that is
complete and on disk; a shard counts once its manifest, which holds the digests of its files, is
there. At the end one rename makes the finished folder ``OUT``.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

from polars.exceptions import PolarsError

from cutlayer.data.prepared_files import SCHEMA_FILE
from cutlayer.durable import make_private, storage, sync
from cutlayer.errors import ConfigurationError, StorageError

REJECTS_FILE: Final = "rejects.csv"

_DRAFT: Final = ".draft"

Json = dict[str, Any]
Writer = Callable[[Path], None]


class WorkFolder:
    """The way to one output folder, for one plan.

    Args:
        out: the folder to be made.
        plan: everything that the output depends on. A partial folder of another plan is refused.

    Raises:
        ConfigurationError: ``out`` names no folder or holds something else, the partial folder
            belongs to another plan and holds finished work, or another process works on it.
        StorageError: the folder cannot be written.
    """

    def __init__(self, out: Path, plan: Json) -> None:
        if out.name in ("", ".."):
            raise ConfigurationError(f"--out must name a folder to be made, got {str(out)!r}.")
        with storage(out):
            dangling = out.is_symlink() and not out.exists()
        if dangling:
            raise ConfigurationError(
                f"--out: {out} is a link that leads nowhere. Remove it, or choose another name."
            )
        self.out = out
        self.plan: Json = json.loads(json.dumps(plan))
        self._partial = out.with_name(out.name + ".partial")
        self._state, self.staging = self._partial / "work", self._partial / "out"
        self._lock: int | None = None

    @property
    def finished(self) -> bool:
        """Whether ``out`` is what this plan makes.

        Raises:
            ConfigurationError: it exists and is something else.
        """
        if not self.out.exists():
            return False
        try:
            if self.schema()["plan"] == self.plan:
                return True
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it was not made by us
        raise ConfigurationError(
            f"{self.out} exists and was not made from this file with these options. Choose "
            "another name, or remove it."
        )

    def __enter__(self) -> Self:
        with storage(self.out):
            self._state.mkdir(parents=True, exist_ok=True)
            self.staging.mkdir(exist_ok=True)
        self._take_lock()
        try:
            self._take_over()
        except BaseException:
            self._release()
            raise
        return self

    def _take_over(self) -> None:
        """Go on with what is there, if it is of this plan; where nothing was kept, begin anew."""
        known = self.state("plan")
        if known == self.plan:
            return
        if known is not None and self._kept_work():
            differing = [key for key in self.plan if known.get(key) != self.plan[key]]
            raise ConfigurationError(
                f"{self._partial} is the unfinished output of another run: {', '.join(differing)} "
                "differ. Start again with the same options, choose another --out, or remove it."
            )
        # A run that was refused or killed before it had learnt anything costs nothing to repeat.
        shutil.rmtree(self.spill, ignore_errors=True)
        self.keep_state("plan", self.plan)

    def _kept_work(self) -> bool:
        """Whether a process left a result of its own here, apart from the plan."""
        own = {"plan.json", "lock"}
        kept = (path.name for path in self._state.iterdir() if path != self.spill)
        return any(name not in own and not name.endswith(_DRAFT) for name in kept)

    def __exit__(self, *_: object) -> None:
        self._release()

    @property
    def rejects(self) -> Path:
        """Where rejects are listed while the run is not finished."""
        return self._partial / REJECTS_FILE

    @property
    def spill(self) -> Path:
        """Where intermediate counts may lie."""
        return self._state / "counts"

    def state(self, name: str) -> Json | None:
        """What :meth:`keep_state` kept; ``None`` where it was not reached."""
        path = self._state / f"{name}.json"
        if not path.exists():
            return None
        try:
            kept: Json = json.loads(path.read_bytes())
        except ValueError as error:
            raise ConfigurationError(
                f"{path} is damaged. Remove {self._partial} and start anew."
            ) from error
        return kept

    def keep_state(self, name: str, value: Json) -> None:
        """Keep a JSON object for the next process."""
        write_whole(self._state / f"{name}.json", lambda path: _write_json(path, value))

    def state_file(self, name: str) -> Path:
        """A file for the next process, to be written with :func:`write_whole`."""
        return self._state / name

    def shards(self) -> list[Json]:
        """Manifests of the finished shards, in order, up to the first that is absent or damaged."""
        found: list[Json] = []
        while (manifest := self.state(f"shard-{len(found):05d}")) is not None:
            files: Mapping[str, str] = manifest["files"]
            if any(_digest(self.staging / name) != known for name, known in files.items()):
                break
            found.append(manifest)
        return found

    def keep_shard(self, number: int, files: Mapping[str, Writer], manifest: Json) -> Json:
        """Write the files of a shard, then its manifest."""
        for name, write in files.items():
            write_whole(self.staging / name, write)
        digests = {name: _digest(self.staging / name) for name in files}
        whole = {**manifest, "files": digests}
        self.keep_state(f"shard-{number:05d}", whole)
        return whole

    def finish(self, schema: Json) -> None:
        """Write the schema, and turn the work into the output, at once."""
        whole = {**schema, "plan": self.plan}
        write_whole(self.staging / SCHEMA_FILE, lambda path: _write_json(path, whole))
        with storage(self.out):
            self.staging.replace(self.out)
            sync(self.out.parent)
        self.clear()

    def schema(self) -> Json:
        """The schema of the finished folder."""
        return json.loads((self.out / SCHEMA_FILE).read_bytes())

    def clear(self) -> None:
        """Remove the partial folder, if there is one."""
        shutil.rmtree(self._partial, ignore_errors=True)

    def _take_lock(self) -> None:
        """Refuse a second process; the system gives the lock back when a process dies."""
        self._lock = os.open(self._state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise ConfigurationError(
                f"Another process is working on {self._partial}. Wait for it, or choose another "
                "--out."
            ) from None

    def _release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def write_whole(path: Path, write: Writer) -> None:
    """Let a file appear once it is complete and on disk.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    with storage(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + _DRAFT)
        try:
            make_private(draft)
            write(draft)
        except PolarsError as error:  # in whose words a full disk is an error of computing
            raise StorageError(
                f"Cannot write {path}: {error}. Give it room, then start the same command again."
            ) from error
        sync(draft)
        draft.replace(path)
        sync(path.parent)


def _write_json(path: Path, value: Json) -> None:
    """A JSON file that reads well."""
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    """A fingerprint of the file; empty where there is none."""
    if not path.is_file():
        return ""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
