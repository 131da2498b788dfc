"""Persistence: what a party keeps of a run, so that nothing is lost and nothing sent twice."""

from dataclasses import dataclass
from pathlib import Path

from cutlayer.parties.checkpoint import CheckpointStore
from cutlayer.parties.release_journal import ReleaseJournal
from cutlayer.parties.run_key import RunKey

KEY_FILE, JOURNAL_FILE, CHECKPOINTS_FOLDER = "run.key", "journal", "checkpoints"


@dataclass(frozen=True)
class Persistence:
    """Key and journal are never rolled back; checkpoints are what a run is rolled back to.

    ::

        folder/run.key        the run's secret: noise, batch order, dropout
               journal        at the label party: what was answered
               checkpoints/   the newest three states
    """

    key: RunKey
    checkpoints: CheckpointStore
    journal: ReleaseJournal | None = None

    @classmethod
    def in_folder(cls, folder: Path, protection: str | None = None) -> "Persistence":
        """What is kept in a run's folder; made at the first start.

        Args:
            folder: of one party's run.
            protection: at the label party: exact settings of the protection, as text.

        Raises:
            DataError: the journal is damaged.
            ConfigurationError: another process uses the run, its key can be read by others, or its
                messages left under another protection.
            StorageError: the folder cannot be written.
        """
        key = RunKey.kept_at(folder / KEY_FILE)
        journal = None if protection is None else ReleaseJournal(folder / JOURNAL_FILE, protection)
        return cls(key, CheckpointStore(folder / CHECKPOINTS_FOLDER), journal)

    def close(self) -> None:
        """Let go of the run's folder."""
        if self.journal is not None:
            self.journal.close()
