"""The result of one run: written last and whole, so that its presence says that the run ended."""

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cutlayer.audits import GradientHistogram, StepCurve
from cutlayer.audits.scope import Layer
from cutlayer.durable import whole_file
from cutlayer.errors import DataError
from cutlayer.experiments.tradeoff.grid import Run

RESULT_FILE, FAILURE_FILE, DETAILS_FILE = "result.json", "failure.json", "details.json"


class _Record(BaseModel):
    """A frozen part of a file; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AttackResult(_Record):
    """What one attack reached at one layer. ``None`` where no batch held what it needs."""

    attack: str
    layer: Layer
    median: float | None
    """Leak AUC in one release, symmetrised: median over the audited batches."""
    p95: float | None
    """The same: 95th percentile, the paper's figure."""
    all_releases: float | None
    """Leak AUC of each record's scores averaged over its audited visits."""
    median_floor: float | None
    """95 % of attackers who know nothing have a median below it."""
    p95_floor: float | None
    """The same for one batch, which is what a 95th percentile over many batches comes to."""
    all_releases_floor: float | None


class RunResult(_Record):
    """One training and its audit."""

    spec: str
    protection: str
    strength: str
    seed: int
    test_auc: float
    test_loss: float
    """Mean binary cross-entropy in nats, at the end of the training."""
    train_auc: float
    train_loss: float
    test_auc_low: float | None = None
    """Lower end of the 95 % interval of the test AUC, over draws of test records."""
    test_auc_high: float | None = None
    base_loss: float | None = None
    """Test loss of the training records' share of positives, predicted for everybody."""
    attacks: tuple[AttackResult, ...]
    steps: int
    audited_batches: int
    one_class_batches: int
    """Audited batches of one class, which have no leak AUC."""
    train_records: int
    test_records: int
    positive_share: float
    training_seconds: float
    audit_seconds: float
    giveaways: tuple[str, ...] = ()
    """A line for each column that gave the label away; results of earlier versions have none."""


class Failure(_Record):
    """Why a run has no result."""

    spec: str
    seed: int
    error: str


class Details(_Record):
    """What the figures of single runs need."""

    curves: tuple[StepCurve, ...]
    histograms: tuple[GradientHistogram, ...]


Kind = TypeVar("Kind", bound=BaseModel)
Ended = TypeVar("Ended", RunResult, Failure)
State = Literal["waiting", "running", "done", "failed"]


def run_folder(folder: Path, run: Run) -> Path:
    """Where one run keeps its files."""
    return folder / "runs" / run.name


def state_of(folder: Path, run: Run) -> State:
    """How far a run is; one that was killed in flight reads ``running``."""
    own = run_folder(folder, run)
    if (own / RESULT_FILE).exists():
        return "done"
    if (own / FAILURE_FILE).exists():
        return "failed"
    return "running" if own.exists() else "waiting"


def write_record(record: BaseModel, path: Path) -> None:
    """Write whole or not at all, durably.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    with whole_file(path) as partial:
        partial.write_text(record.model_dump_json(indent=1), encoding="utf-8")


def read_result(folder: Path, run: Run) -> RunResult | None:
    """The result of a run; ``None`` where it has none.

    Raises:
        DataError: the file is damaged, or another run's.
    """
    return _of(run, _read(run_folder(folder, run) / RESULT_FILE, RunResult), folder)


def read_failure(folder: Path, run: Run) -> Failure | None:
    """Why a run failed; ``None`` where it did not.

    Raises:
        DataError: the file is damaged, or another run's.
    """
    return _of(run, _read(run_folder(folder, run) / FAILURE_FILE, Failure), folder)


def read_details(folder: Path, run: Run) -> Details | None:
    """Curves and histograms of a run; ``None`` where it has not ended.

    Raises:
        DataError: the file is damaged.
    """
    return _read(run_folder(folder, run) / DETAILS_FILE, Details)


def _of(run: Run, found: Ended | None, folder: Path) -> Ended | None:
    """What was found, if it is of this run."""
    if found is not None and (found.spec, found.seed) != (run.spec, run.seed):
        own = run_folder(folder, run)
        raise DataError(
            f"{own} must hold {run.spec} with seed {run.seed}, but holds {found.spec} with seed "
            f"{found.seed}. Delete {own} and run again."
        )
    return found


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    """One file of a run."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise DataError(f"{path} is damaged; delete {path.parent} and run again.") from error
