"""The recording of a party's run: what the label party keeps for a later audit of its messages."""

from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from cutlayer.audits import ReleaseRecorder
from cutlayer.audits.findings import Bound, Findings
from cutlayer.durable import whole_file
from cutlayer.errors import DataError
from cutlayer.parties import Agreement, Canaries
from cutlayer.runs.configuration import LabelConfiguration

MESSAGES = "messages"
"""Folder of the recording inside the run's folder. It holds labels: it stays at the label party."""
_CONTEXT = "recording.json"

STOPPED_ON_LABELS = (
    "Training may stop on an audit of the labels (stop_above), so the moment of stopping tells "
    "about them and no bound holds."
)
"""Grounds of the guarantee of a run that may stop on what its live audit reads."""


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
        positive_share=float(canaries.labels[agreement.train].double().mean()),
    )
    with whole_file(folder / _CONTEXT) as partial:
        partial.write_text(context.model_dump_json(indent=1), encoding="utf-8")
    generator = torch.Generator()
    generator.seed()
    return ReleaseRecorder(
        folder, agreement.ids, generator=generator, limit_bytes=int(configuration.record)
    )


def without_guarantee(findings: Findings) -> Findings:
    """The findings of a run that may stop on its live audit: they promise nothing.

    Whether it stopped or not: that it did *not* stop tells about the labels as well.
    """
    nothing = Bound(kind="none", leak_auc=None, grounds=STOPPED_ON_LABELS)
    rows = [row.model_copy(update={"guarantee": nothing}) for row in findings.rows]
    return findings.model_copy(update={"rows": rows})


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
