"""Findings: what an audit measured, as one validated document (``findings.json``).

The field names are a public format: they are documented in ``docs/findings.md``, and a change
of meaning changes :data:`SCHEMA`.
"""

from itertools import pairwise
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from cutlayer.audits.scope import Layer, Stage
from cutlayer.durable import whole_file
from cutlayer.errors import DataError
from cutlayer.leakage.guarantee import Guarantee

SCHEMA: Literal["cutlayer.findings/1"] = "cutlayer.findings/1"


class _Record(BaseModel):
    """A frozen part of the document; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Bound(_Record):
    """What the protection promises for the same number of releases."""

    kind: Literal["rigorous", "model", "none"]
    leak_auc: float | None
    grounds: str

    @classmethod
    def of(cls, promised: Guarantee, also: str = "") -> Self:
        """What a protection guarantees; ``also`` is a sentence that its grounds end with."""
        grounds = f"{promised.grounds} {also}".strip()
        return cls(kind=promised.kind, leak_auc=promised.leak_auc, grounds=grounds)


class FindingRow(_Record):
    """One attack on one protection at one layer, over one release or over all of them.

    The baselines that send no gradient have one row each, with ``attack`` null.
    """

    protection: str
    strength: str
    attack: str | None
    layer: Layer | None
    releases: Literal["one", "some", "all"]
    """``one``: each batch is attacked by itself. ``some``: each record's scores are joined over its
    visits of the first :attr:`epochs` epochs, then ordered once. ``all``: over every visit of the
    whole training."""
    target: Literal["labels", "canaries"]
    """What the scores are compared with: the true labels, or the coins of the canary records."""
    leak_auc: float | None
    """Symmetrised, in [0.5, 1]: median over batches (``one``), or of the averages (``all``)."""
    leak_auc_p95: float | None
    """95th percentile over batches of the symmetrised leak AUC; null for ``all``."""
    raw_auc: float | None
    """Before symmetrising, in [0, 1]: median over batches, or of the averages."""
    pooled_auc: float | None
    """Symmetrised AUC of one epoch's scores, standardised in each batch, ordered together."""
    null_floor: float | None
    """95 % of attackers who know nothing reach a ``leak_auc`` below it."""
    null_deviation: float | None
    """Standard deviation of such an attacker's ``raw_auc``."""
    batches: int
    """``one``: batches that held both classes, so that an AUC is defined; ``all``: batches that
    were averaged over."""
    one_class_batches: int
    """Batches left out of the measurement (never out of the training) for lack of a class."""
    test_auc: float | None
    test_auc_error: float | None
    """Standard error of the mean over the splits; null for one split."""
    test_loss: float | None
    test_loss_error: float | None
    guarantee: Bound
    epochs: int | None = None
    """Epochs that ``some`` and ``all`` cover; null for ``one``."""
    leak_auc_low: float | None = None
    """Lower end of the 95 % confidence interval of :attr:`leak_auc`."""
    leak_auc_high: float | None = None
    """Its upper end."""
    true_positive_rate: float | None = None
    """Share of the positives that the attack finds when it accuses 1 % of the negatives."""
    hints: int = 0
    """Known records of each class that the attacker was given."""
    needs: str | None = None
    """What the attacker must know beyond the messages, in words."""
    family: str | None = None
    """What the attack goes by, such as ``norm`` or ``spectral``."""
    stage: Stage = "training"
    """``inference``: the attack on activations sent for prediction."""
    seeds: int = 1
    """Over how many choices of known records, or of chance, :attr:`leak_auc` is the median."""
    leak_auc_worst_seed: float | None = None
    """The highest among them."""


class KnowledgeBaseline(_Record):
    """How well somebody orders the labels who sees no message at all."""

    protection: str
    strength: str
    name: Literal["prior", "features", "features_half"]
    """``prior``: knows the share of positives alone. ``features``: a classifier on the non-label
    party's own features and a few known labels."""
    target: Literal["labels", "canaries"]
    hints: int
    """Known records of each class; 0 for ``prior``."""
    leak_auc: float | None
    """Median over the seeds, symmetrised."""
    leak_auc_low: float | None
    leak_auc_high: float | None
    true_positive_rate: float | None


class AttackNote(_Record):
    """What one attack does, for a reader who has not met it."""

    name: str
    about: str
    """One sentence."""
    published: str
    """Where it comes from; empty for an attack of one's own."""


class Applied(_Record):
    """What was done to what was sent, in the audited training."""

    protection: str
    strength: str
    stage: str
    releases: int
    rows: int
    """Gradient rows that were sent, every one of them perturbed as stated."""
    statement: str


class Utility(_Record):
    """How well the trained model predicts the test records of each split."""

    protection: str
    strength: str
    test_auc: list[float | None]
    """One value for each split; null where it is not defined, as for test records of one class."""
    test_loss: list[float | None]
    """Mean binary cross-entropy in nats, one value for each split; null where it is not defined."""
    test_auc_low: list[float | None] = Field(default_factory=list)
    """Lower end of the 95 % interval of each :attr:`test_auc`, over draws of test records."""
    test_auc_high: list[float | None] = Field(default_factory=list)
    """Its upper end."""
    base_loss: list[float | None] = Field(default_factory=list)
    """Loss of a model that predicts the training records' share of positives for everybody."""
    mean_probability: list[float | None] = Field(default_factory=list)
    """Mean predicted probability on the test records."""
    positive_share: list[float | None] = Field(default_factory=list)
    """Share of positives among the test records."""

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if len(self.test_auc) != len(self.test_loss):
            raise ValueError(
                f"test_auc and test_loss must be equally long, got {len(self.test_auc)} and "
                f"{len(self.test_loss)} values"
            )
        later = ("test_auc_low", "test_auc_high", "base_loss", "mean_probability", "positive_share")
        for name in later:
            values = getattr(self, name)
            if values and len(values) != len(self.test_auc):
                raise ValueError(
                    f"{name} must be empty or as long as test_auc, got {len(values)} and "
                    f"{len(self.test_auc)} values"
                )
        return self


class LeakCurve(_Record):
    """Leak AUC of one attack over the steps of the audited training."""

    protection: str
    strength: str
    attack: str
    layer: Layer
    target: Literal["labels", "canaries"]
    step: list[int]
    leak_auc: list[float]
    null_floor: list[float]

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        lengths = len(self.step), len(self.leak_auc), len(self.null_floor)
        if len(set(lengths)) > 1:
            raise ValueError(
                "step, leak_auc and null_floor must be equally long, got "
                f"{', '.join(map(str, lengths))} values"
            )
        return self


class ClassHistogram(_Record):
    """How the sent gradients of each class are distributed, over all audited releases."""

    protection: str
    strength: str
    layer: Layer
    quantity: Literal["norm", "cosine"]
    """``norm``: relative to the largest of its batch. ``cosine``: with a known positive."""
    edges: list[float]
    positive: list[float]
    """Share of the positives in each bin; sums to 1."""
    negative: list[float]

    @model_validator(mode="after")
    def _one_border_more(self) -> Self:
        bins = len(self.edges) - 1
        if bins < 1 or {len(self.positive), len(self.negative)} != {bins}:
            raise ValueError(
                f"positive and negative must have one value less than edges, got "
                f"{len(self.positive)} and {len(self.negative)} for {len(self.edges)} edges"
            )
        if any(left >= right for left, right in pairwise(self.edges)):
            raise ValueError("edges must grow")
        return self


class Findings(_Record):
    """Everything that a report shows."""

    schema_version: Literal["cutlayer.findings/1"] = Field(default=SCHEMA, alias="schema")
    created: str
    """Local time, ISO 8601."""
    cutlayer_version: str
    data: str
    train_records: int
    test_records: int
    positive_share: float
    features_non_label_party: int
    features_label_party: int
    settings: dict[str, str | int | float | bool | None]
    processes: Literal[0, 1, 2]
    """2: the parties ran as two operating-system processes. 1: a simulation in one process. 0: a
    transcript of another framework does not say."""
    noise: Literal["secret", "simulation: noise is reproducible", "unknown"]
    hint: str
    """What the attacks with a hint were given."""
    first_layer: str
    """``measured``, or why the first layer was not measured."""
    complete: bool
    """False where a run was interrupted: the document then covers what was done."""
    rows: list[FindingRow]
    applied: list[Applied]
    utility: list[Utility]
    curves: list[LeakCurve]
    histograms: list[ClassHistogram]
    baselines: list[KnowledgeBaseline] = Field(default_factory=list)
    """What is known without any message."""
    attacks: list[AttackNote] = Field(default_factory=list)
    """One for each attack of :attr:`rows`."""
    description: str | None = None
    """What the data are, who holds which part, and what a positive is."""
    messages_before: int = Field(default=0, ge=0)
    """Gradient messages that an earlier start of an interrupted run sent, and that this document
    does not cover; ``all`` then means all since."""
    messages_missing: list[tuple[PositiveInt, PositiveInt]] = Field(default_factory=list)
    """Numbers of the first and last message, counted from 1, of each later gap: they were sent, and
    this document does not cover them either."""
    messages_recorded: int = Field(default=0, ge=0)
    """Of :attr:`messages_before`, how many the run's folder holds for an audit."""
    messages_sent: int | None = Field(default=None, ge=0)
    """Gradient messages over all starts of the run, covered or not; null where nobody knows."""
    messages_every: PositiveInt = 1
    """Of the messages that this document covers, the attacks looked at one of every so many."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )


def read_findings(path: Path) -> Findings:
    """Read and validate a ``findings.json``.

    Raises:
        DataError: the file is missing, is not JSON, or does not follow :data:`SCHEMA`.
    """
    try:
        return Findings.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"There is no {path}. Run `cutlayer audit` on the run folder.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"{path} does not follow {SCHEMA}: {where}: {first['msg']}. Make it anew with "
            "`cutlayer audit` on the run folder."
        ) from error


def write_findings(findings: Findings, path: Path) -> None:
    """Write the document whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(findings.model_dump_json(by_alias=True, indent=1), encoding="utf-8")
