"""The recording of a party's run: what the label party keeps for a later audit of its messages."""

from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from cutlayer.audits import TRANSCRIPT, ReleaseRecorder
from cutlayer.audits.ground_truth import UNKNOWN
from cutlayer.audits.recording.ground_truth_files import HINTS, TRUTH, read_label_side
from cutlayer.audits.recording.recorded_steps import read_recorded_steps
from cutlayer.data import PartyTable
from cutlayer.durable import whole_file
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.parties import Agreement, Canaries
from cutlayer.runs.configuration import LabelConfiguration
from cutlayer.transcript import Transcript

MESSAGES = "messages"
"""Folder of the recording inside the run's folder. It holds labels: it stays at the label party."""
_CONTEXT = "recording.json"
_SHOWN = 3


class RecordingContext(BaseModel):
    """What an audit has to know of the run beside its messages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    protection: str
    """As in the configuration."""
    epochs: int
    """That a goal for the whole training is planned for."""
    may_stop: bool
    """Whether the live audit may end the training."""
    train_records: int
    test_records: int
    positive_share: float
    micro_batches: int = 1
    """Messages that a batch crosses in."""


def open_recorder(
    configuration: LabelConfiguration, agreement: Agreement, canaries: Canaries
) -> ReleaseRecorder:
    """Begin the recording of a run, or go on with it.

    Whose history is kept when the space of ``record`` is short is drawn from the operating
    system's randomness.

    Args:
        configuration: of the label party; ``record`` is not 0.
        agreement: the run's ids and its split.
        canaries: training labels by record.

    Returns:
        An observer; close it at the end, whatever ends the run.

    Raises:
        DataError: the folder holds the recording of other ids, or ``record`` is too small.
    """
    folder = configuration.run_folder / MESSAGES
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    context = RecordingContext(
        run=configuration.run,
        protection=configuration.protection,
        epochs=configuration.epochs,
        may_stop=configuration.stop_above is not None,
        train_records=len(agreement.train),
        test_records=len(agreement.test),
        positive_share=float(canaries.training_labels[agreement.train].double().mean()),
        micro_batches=configuration.micro_batches,
    )
    with whole_file(folder / _CONTEXT) as partial:
        partial.write_text(context.model_dump_json(indent=1), encoding="utf-8")
    generator = torch.Generator()
    generator.seed()
    return ReleaseRecorder(
        folder, agreement.ids, generator=generator, limit_bytes=int(configuration.record)
    )


def require_recorded_labels(configuration: LabelConfiguration, table: PartyTable) -> None:
    """Refuse labels that differ from those that the recording of the run holds.

    Before the peer is met: found at the first batch that differs, it would end the session at a
    moment that depends on labels.

    Args:
        configuration: of the label party.
        table: all its records, with labels.

    Raises:
        ConfigurationError: a label differs.
        DataError: the recording is damaged.
    """
    folder = configuration.run_folder / MESSAGES
    begun = all((folder / name).exists() for name in (TRUTH, HINTS))
    if not configuration.record or not begun or table.labels is None:
        return
    ids, (truth, _) = Transcript(folder / TRANSCRIPT).ids, read_label_side(folder)
    recorded = dict(zip(ids, truth.labels.tolist(), strict=False))
    differing = [
        name
        for name, label in zip(table.ids, table.labels.tolist(), strict=True)
        if recorded.get(name, UNKNOWN) not in (UNKNOWN, label)
    ]
    if differing:
        named = ", ".join(repr(name) for name in differing[:_SHOWN])
        raise ConfigurationError(
            f"label party: the labels of {len(differing):,} records in {configuration.file} "
            f"differ from those in {folder / TRUTH}, which the recording of this run has kept: "
            f"{named}{' and others' if len(differing) > _SHOWN else ''}. If a part of "
            f"{configuration.run_folder} was restored, restore all of it from one copy; or move "
            f"{folder} elsewhere, and the recording begins anew from here."
        )


def recorded_messages(folder: Path, *, before: int) -> int:
    """How many of a run's first messages its folder holds for an audit.

    Args:
        folder: of the run.
        before: of how many.

    Returns:
        Their number; 0 for a recording that is damaged, as nothing can attack it.
    """
    if not before or not is_recorded_run(folder):
        return 0
    recording = folder / MESSAGES
    try:
        seen = read_recorded_steps(recording, Transcript(recording / TRANSCRIPT))
    except DataError:
        return 0
    return before - sum(end - first for first, end in seen.missing(before))


def is_recorded_run(folder: Path) -> bool:
    """Whether a label party's run folder holds a recording."""
    return (folder / MESSAGES / _CONTEXT).exists()


def read_context(folder: Path) -> RecordingContext:
    """What is known of a recorded run.

    Args:
        folder: of the run.

    Raises:
        DataError: the file is missing or damaged.
    """
    path = folder / MESSAGES / _CONTEXT
    try:
        return RecordingContext.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DataError(
            f"{path} is missing or damaged, so nobody knows how the messages were protected. "
            "Record the run again."
        ) from error
