"""Persistence: what a party keeps of a run, so that nothing is lost and nothing sent twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from torch import Tensor

from cutlayer.durable import create_private
from cutlayer.parties.checkpoint import CheckpointStore
from cutlayer.parties.first_start import FirstStart
from cutlayer.parties.held_labels import hold_labels, labelling_of
from cutlayer.parties.release_journal import ReleaseJournal
from cutlayer.parties.run_key import RunKey

KEY_FILE, JOURNAL_FILE, CHECKPOINTS_FOLDER = "run.key", "journal", "checkpoints"
FIRST_START_FILE = "first_start.json"
_PEER_ORDER_FILE, _RECORDS_FILE, _LABELS_FILE = "peer.order", "shared.records", "labels.held"


@dataclass(frozen=True)
class Persistence:
    """Key and journal are never rolled back; checkpoints are what a run is rolled back to.

    ::

        folder/run.key        the run's secret: noise, batch order, dropout
               journal        at the label party: what was answered
               peer.order     the peer's half of the batch order, or its hash, as first heard
               shared.records at the label party: a hash of the records that the run is about
               labels.held    at the label party: shows whether a label has changed
               first_start.json  the encoder, and keyed hashes of the features
               checkpoints/   the newest three states
    """

    folder: Path
    key: RunKey
    checkpoints: CheckpointStore
    journal: ReleaseJournal | None = None
    file: Path | None = None
    """Where the party's records come from, for messages; ``None`` where they are from no file."""
    settings: Mapping[str, float] | None = None
    """Numbers of which a change between two starts is told, such as the learning rate."""
    _labellings: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def in_folder(
        cls,
        folder: Path,
        protection: str | None = None,
        *,
        file: Path | None = None,
        settings: Mapping[str, float] | None = None,
    ) -> "Persistence":
        """What is kept in a run's folder; made at the first start.

        Args:
            folder: of one party's run.
            protection: at the label party: exact settings of the protection, as text.
            file: where the party's records come from, for messages.
            settings: numbers of which a change between two starts is told.

        Raises:
            DataError: the journal is damaged.
            ConfigurationError: another process uses the run, its key can be read by others, or its
                messages left under another protection.
            StorageError: the folder cannot be written.
        """
        key = RunKey.kept_at(folder / KEY_FILE)
        journal = None if protection is None else ReleaseJournal(folder / JOURNAL_FILE, protection)
        store = CheckpointStore(folder / CHECKPOINTS_FOLDER)
        return cls(folder, key, store, journal, file, settings)

    @cached_property
    def first_start(self) -> FirstStart:
        """What the features were when the run began."""
        path = self.folder / FIRST_START_FILE
        return FirstStart(path, self.key, file=self.file, settings=self.settings)

    def pin_order(self, word: str) -> str:
        """Put what the peer says of its half of the batch order on record, the first time only.

        So neither party can hear the other's half, hang up, and come back with another of its own.

        Args:
            word: as the peer's HELLO has it.

        Returns:
            What is on record.

        Raises:
            StorageError: it cannot be written.
        """
        return create_private(self.folder / _PEER_ORDER_FILE, word.encode()).decode("utf-8")

    def pin_records(self, digest: str) -> str:
        """Put a hash of the shared records on record, the first time only.

        So the peer cannot hear the order, hang up, and leave out records until two that it is
        curious about meet; nor train, in one round, on one choice of records after another.

        Args:
            digest: of the agreement.

        Returns:
            What is on record.

        Raises:
            StorageError: it cannot be written.
        """
        return create_private(self.folder / _RECORDS_FILE, digest.encode()).decode("utf-8")

    def hold_labels(self, ids: Sequence[str], labels: Tensor) -> None:
        """Hold every start of the run to the labels of the first that sent something.

        Args:
            ids: of all records of the label party, whichever of them the peer has.
            labels: theirs, 0 or 1, ``(records,)``.

        Raises:
            ConfigurationError: one has changed, and messages have left.
            DataError: the file is damaged, or missing though messages have left.
            StorageError: it cannot be read or written.
        """
        path, released = self.folder / _LABELS_FILE, self.journal.released if self.journal else 0
        hold_labels(path, self.key.labels_key, ids, labels, released=released)
        if not self._labellings:  # later calls may hold fewer records, which the peer has chosen
            self._labellings.append(labelling_of(ids, labels))

    @property
    def labelling(self) -> bytes | None:
        """A digest of the labels that :meth:`hold_labels` was given first; ``None`` before."""
        return self._labellings[0] if self._labellings else None

    def close(self) -> None:
        """Let go of the run's folder."""
        if self.journal is not None:
            self.journal.close()
