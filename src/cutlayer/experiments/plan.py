"""The plan of a comparison: which trainings, with which settings, in which order."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cutlayer.data import DATASETS
from cutlayer.durable import whole_file
from cutlayer.errors import ConfigurationError, CutlayerError, DataError
from cutlayer.parties import Terms
from cutlayer.parties.compute import WEIGHT_DECAY
from cutlayer.parties.terms import MOST_EPOCHS, MOST_RECORDS
from cutlayer.protections import PROTECTIONS, NoNoise, Protection, parse_protection
from cutlayer.rng import derived_seed

PLAN_FILE = "plan.json"
ALONE = "label_party_alone"
FROZEN = "frozen"
BASELINES = (ALONE, FROZEN)
"""Trainings in which no gradient is sent: the label party by itself, and a frozen bottom."""


@dataclass(frozen=True)
class Training:
    """One training of a comparison."""

    spec: str
    """A baseline's name, or a protection as text."""
    split: int
    """Which fold is the test."""
    canaries: int
    """Training records with a coin for a label."""
    visits: int
    """How often each training record is sent."""
    audited: bool
    """Whether its messages are recorded and attacked."""
    name: str
    """Also the name of its folder."""

    @cached_property
    def protection(self) -> Protection:
        """The protection, made anew: averages over batches belong to one training."""
        if self.spec in BASELINES:
            return NoNoise()  # never applied: these trainings send no gradient
        return parse_protection(self.spec, PROTECTIONS, planned_releases=self.visits)

    @property
    def title(self) -> tuple[str, str]:
        """Name and strength, as the reports show them."""
        if self.spec in BASELINES:
            return self.spec, "-"
        return self.protection.name, self.protection.strength


class Plan(BaseModel):
    """Everything that decides what a comparison does; kept as ``plan.json`` in its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = "caravan"
    protections: tuple[str, ...] = (
        "no_noise",
        "isotropic:t=1",
        "max_norm",
        "marvell:s=4",
        "residual:max_leak_auc=0.7",
    )
    baselines: tuple[str, ...] = BASELINES
    splits: int = Field(default=5, ge=1)
    folds: int = Field(default=5, ge=2)
    epochs: int = Field(default=20, ge=1, le=MOST_EPOCHS)
    batch_size: int = Field(default=512, ge=2, le=MOST_RECORDS)
    cut_width: int = Field(default=32, ge=1, le=1 << 20)
    hidden_width: int = Field(default=32, ge=1, le=1 << 16)
    learning_rate: float = Field(default=2e-3, gt=0)
    weight_decay: float = Field(default=WEIGHT_DECAY, ge=0)
    canaries: int = Field(default=1000, ge=0)
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    only_canaries: bool = False
    """Train the protections with canaries and nothing else."""
    simulated: bool = False
    """One process and repeatable noise, for research; otherwise two processes and secret noise."""

    @field_validator("data")
    @classmethod
    def _known_data(cls, value: str) -> str:
        DATASETS[value]
        return value

    @field_validator("baselines")
    @classmethod
    def _known_baselines(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in BASELINES:
                raise ConfigurationError(
                    f"No baseline is called {name!r}. Known: {', '.join(BASELINES)}."
                )
        return value

    @property
    def trainings(self) -> list[Training]:
        """All trainings; the audited first, so that an interrupted run says most."""
        first = [self._training(spec, 0) for spec in (*self.protections, *self.baselines)]
        coins = [self._training(spec, 0, canaries=True) for spec in self.protections]
        if self.only_canaries:
            return coins
        rest = [
            self._training(spec, split)
            for split in range(1, self.splits)
            for spec in (*self.protections, *self.baselines)
        ]
        return first + (coins if self.canaries else []) + rest

    def terms(self, training: Training) -> Terms:
        """What the two parties of a training agree on."""
        return Terms(
            run=training.name,
            data=self.data,
            protection=training.spec,
            mode="one round" if training.spec == FROZEN else "loop",
            epochs=self.epochs,
            batch_size=self.batch_size,
            cut_width=self.cut_width,
            seed=self.seed,
            folds=self.folds,
            test_fold=training.split,
        )

    def generator(self, training: Training, purpose: str) -> torch.Generator:
        """Randomness for one purpose; alike for all protections, so that runs can be paired."""
        return torch.Generator().manual_seed(self.derived_seed(training, purpose))

    def derived_seed(self, training: Training, purpose: str) -> int:
        """A seed for one purpose of one split."""
        return derived_seed(self.seed, training.split, training.canaries, purpose)

    def _training(self, spec: str, split: int, *, canaries: bool = False) -> Training:
        """One entry of the list, with the name of its folder."""
        specs = (*self.protections, *self.baselines)
        kind = "canaries" if canaries else f"split-{split}"
        name = f"{specs.index(spec):02d}-{spec.partition(':')[0]}-{kind}"
        audited = spec not in BASELINES and split == 0
        coins = self.canaries if canaries else 0
        return Training(spec, split, coins, self.epochs, audited, name)


def fitting_defaults(training_records: int) -> dict[str, int]:
    """Batch size and number of canaries where nobody chose them: as large as the data carry.

    At least four batches an epoch, and at most a quarter of the training records as canaries.
    """
    quarter = max(training_records // 4, 2)
    return {
        "batch_size": min(512, 1 << (quarter.bit_length() - 1)),
        "canaries": min(1000, quarter),
    }


def make_plan(**settings: object) -> Plan:
    """A plan from settings, each checked; a setting of ``None`` is left to its default.

    Raises:
        ConfigurationError: a setting is unknown or breaks a rule; names it, the rule and the fix.
    """
    try:
        plan = Plan.model_validate({k: v for k, v in settings.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        option = "--" + "-".join(str(part) for part in first["loc"]).replace("_", "-")
        raise ConfigurationError(f"{option}: {first['msg']}, got {first['input']!r}.") from error
    if plan.splits > plan.folds:
        raise ConfigurationError(
            f"--splits: at most {plan.folds}, the number of folds, got {plan.splits}."
        )
    if len(set(plan.protections)) != len(plan.protections):
        raise ConfigurationError("--protection: the same protection is named twice.")
    for spec in plan.protections:
        if spec in BASELINES:
            raise ConfigurationError(
                f"--protection: {spec} is a baseline, which is trained in any case. Leave it out."
            )
    titles: set[tuple[str, str]] = set()
    for training in plan.trainings:  # a wrong setting is found before anything is written
        if training.split or training.canaries:
            continue
        if training.title in titles:
            raise ConfigurationError(
                f"--protection: {' '.join(training.title)} is named twice, in other words."
            )
        titles.add(training.title)
    return plan


def read_plan(folder: Path) -> Plan:
    """The plan of a run folder.

    Raises:
        DataError: there is none, or it is damaged.
    """
    path = folder / PLAN_FILE
    try:
        return Plan.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} is no run folder: it has no {PLAN_FILE}. Name a folder that `cutlayer demo` "
            "or `cutlayer simulate` has made."
        ) from error
    except (ValidationError, CutlayerError) as error:
        raise DataError(f"{path} is damaged ({error}). Run the comparison again.") from error


def keep_plan(plan: Plan, folder: Path) -> None:
    """Write the plan into its folder, or see that the folder already holds this very plan.

    Raises:
        ConfigurationError: the folder holds something else.
    """
    if (folder / PLAN_FILE).exists():
        if read_plan(folder) != plan:
            raise ConfigurationError(
                f"--out: {folder} holds a run with other settings. Choose another folder, or give "
                "the same settings to go on with that run."
            )
        return
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"--out: {folder} is a file. Name a folder.")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigurationError(
            f"--out: {folder} is not empty and holds no run. Choose another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / PLAN_FILE) as partial:
        partial.write_text(plan.model_dump_json(indent=1), encoding="utf-8")
