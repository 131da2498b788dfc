"""The result of one training: written last, so that its presence says that the rest is whole."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from cutlayer.durable import whole_file
from cutlayer.errors import DataError
from cutlayer.experiments.plan import BASELINES, Plan, Training
from cutlayer.findings.document import Bound
from cutlayer.leakage.guarantee import Guarantee
from cutlayer.parties import TopHalf

RESULT_FILE = "result.json"


class Result(BaseModel):
    """What the label party knows after one training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protection: str
    strength: str
    stage: str
    split: int
    canaries: int
    test_auc: float
    test_loss: float
    test_auc_low: float | None = None
    """Lower end of the 95 % interval of the test AUC; ``None`` in runs of earlier versions."""
    test_auc_high: float | None = None
    base_loss: float | None = None
    """Test loss of the share of positives alone."""
    mean_probability: float | None = None
    """Mean predicted probability on the test records."""
    test_positive_share: float | None = None
    releases: int
    """Gradient messages that were sent."""
    rows: int
    """Gradient rows that were sent."""
    one_release: Bound
    all_releases: Bound
    train_records: int
    test_records: int
    only_at_label_party: int
    only_at_non_label_party: int
    positive_share: float
    columns: int
    """Encoded columns of the label party."""
    seconds: float


def result_of(plan: Plan, training: Training, half: TopHalf, seconds: float) -> Result:
    """Gather the result of a training that has just ended.

    Raises:
        DataError: the test records cannot be scored.
    """
    protection, strength = training.title
    sends_nothing = training.spec in BASELINES
    auc, loss, interval = half.test.defined()
    return Result(
        protection=protection,
        strength=strength,
        stage="none" if sends_nothing else training.protection.stage.value,
        split=training.split,
        canaries=training.canaries,
        test_auc=auc,
        test_loss=loss,
        test_auc_low=interval.low,
        test_auc_high=interval.high,
        base_loss=half.test.base_loss,
        mean_probability=half.test.mean_probability,
        test_positive_share=half.test.positive_share,
        releases=half.sent.releases,
        rows=half.sent.rows,
        one_release=_kept(training, 0 if sends_nothing else 1, half.crossed),
        all_releases=_kept(training, 0 if sends_nothing else plan.epochs, half.crossed),
        train_records=len(half.agreement.train),
        test_records=len(half.agreement.test),
        only_at_label_party=half.agreement.only_here,
        only_at_non_label_party=half.agreement.only_there,
        positive_share=half.positive_share,
        columns=half.inputs.shape.width,
        seconds=seconds,
    )


def write_result(result: Result, folder: Path) -> None:
    """Write the result whole or not at all."""
    with whole_file(folder / RESULT_FILE) as partial:
        partial.write_text(result.model_dump_json(indent=1), encoding="utf-8")


def read_result(folder: Path) -> Result | None:
    """The result of a training, or ``None`` where it has not ended.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / RESULT_FILE
    try:
        return Result.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise DataError(f"{path} is damaged; delete {folder} and run again.") from error


def _kept(training: Training, releases: int, crossed: str) -> Bound:
    """What is promised after so many releases of one record."""
    if releases == 0:
        grounds = f"No message depends on a label. {crossed}".strip()
        promised = Guarantee("rigorous", 0.5, 0, grounds)
    else:
        promised = training.protection.guarantee(releases)
    return Bound.of(promised)
