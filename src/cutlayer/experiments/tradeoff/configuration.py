"""The configuration of a sweep, in TOML: data, model, grid and how to measure."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from cutlayer.data import DATASETS
from cutlayer.data.prepared import PreparedData
from cutlayer.data.prepared_files import SCHEMA_FILE
from cutlayer.durable import LOCK_FILE, PARTIAL, whole_file
from cutlayer.errors import ConfigurationError, CutlayerError, DataError
from cutlayer.experiments.tradeoff.grid import Run, protection_of, specs_of
from cutlayer.experiments.tradeoff.table_keys import TableKeys
from cutlayer.parties.compute import WEIGHT_DECAY
from cutlayer.parties.terms import MOST_EPOCHS, MOST_RECORDS
from cutlayer.preparation.output import source_mark
from cutlayer.protections import Protection
from cutlayer.runs.toml_file import read_toml
from cutlayer.runs.written_values import WrittenKeys, typed_value

CONFIGURATION_FILE, SOURCES_FILE = "configuration.json", "sources.json"
_LONGEST_NAME = 200
_SOURCES = ("data", "images", "prepared", "label_party and non_label_party")
_MAY_CHANGE = {"protections", "seeds", "workers", "keep_transcripts", "published"}
_WORDING = {
    "tuple_type": "must be a list in brackets",
    "too_short": "must hold at least one value",
}

Count = Annotated[int, Field(ge=1, le=1 << 16, strict=True)]
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


class TradeoffConfiguration(WrittenKeys):
    """Everything that decides what a sweep does. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str | None = None
    """A bundled data set."""
    options: dict[str, int | float] = Field(default={})
    """Its options, such as ``rows`` of synthetic-ctr."""
    label_party: TableKeys | None = None
    non_label_party: TableKeys | None = None
    prepared: Path | None = None
    """A folder that ``cutlayer prepare`` made. Its parts are not used: each seed splits anew."""
    images: Path | None = None
    """Images at the non-label party, labels at the label party: ``.npz`` or ``.parquet``."""
    image_side: int | None = Field(default=None, ge=4, le=1 << 16)
    """Images are resized to squares of this side."""
    rows: int | float | None = Field(default=None, gt=0, le=1 << 60)
    """How many records take part: a share up to 1.0, or a whole number. All by default."""
    test_share: float = Field(default=0.2, gt=0, lt=1)

    model: Literal["mlp", "wide_deep", "cnn", "paper"] = "mlp"
    """``paper``: the sizes of Li et al.; a CNN for images, else Wide & Deep."""
    cut_width: int = Field(default=32, ge=2, le=1 << 20)
    """Without meaning for a CNN, whose blocks decide it."""
    hidden: tuple[Count, ...] = (64,)
    """Hidden layers of each half; of a CNN, after its last block."""
    channels: Count = 16
    blocks: tuple[Count, Count] = (3, 1)
    """Convolution blocks of the two halves of a CNN."""
    epochs: int = Field(default=5, ge=1, le=MOST_EPOCHS, strict=True)
    batch_size: int = Field(default=512, ge=2, le=MOST_RECORDS, strict=True)
    learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=WEIGHT_DECAY, ge=0, allow_inf_nan=False)
    """Without meaning for ``paper``, which regularises as the paper does."""

    seeds: tuple[Seed, ...] = Field(default=(0, 1, 2), min_length=1)
    protections: tuple[str, ...] = Field(min_length=1)
    """Texts such as ``marvell:s=[0.1,1,4]``."""
    audit_every: int = Field(default=1, ge=1, le=MOST_RECORDS, strict=True)
    """Record and attack every so many batches."""
    keep_transcripts: bool = False
    paper_protocol: bool = False
    """Measure and protect as the authors' code does, its flaws included."""
    published: Literal["criteo", "avazu", "isic"] | None = None
    """Which of the paper's data sets this is; its points are then drawn beside ours."""
    workers: Count = 1
    """Processes, each with one thread for computing."""

    @field_validator("rows", mode="before")
    @classmethod
    def _no_truth_value(cls, rows: object) -> object:
        """``true`` would count as one record."""
        if isinstance(rows, bool):
            raise ValueError("must be a number")
        return rows

    @property
    def title(self) -> str:
        """The data set's name, for reports."""
        if self.data is not None:
            return self.data
        if self.label_party is not None:
            return self.label_party.file.name.partition(".")[0]
        named = self.images or self.prepared
        return named.name.partition(".")[0] if named else "data"

    @property
    def runs(self) -> list[Run]:
        """Every training: all protections with the first seed, then with the next one."""
        return [Run(spec, seed) for seed in self.seeds for spec in specs_of(self.protections)]

    def protection(self, spec: str) -> Protection:
        """A protection of the grid, made anew for one training.

        Raises:
            ConfigurationError: the text is wrong.
        """
        return protection_of(spec, epochs=self.epochs, paper_protocol=self.paper_protocol)

    @property
    def grouped(self) -> bool:
        """Whether records of one group stay together in the split."""
        return self.label_party is not None and self.label_party.group is not None

    @property
    def fixed(self) -> dict[str, object]:
        """What must not change when a sweep is gone on with; the grid itself may grow."""
        return self.model_dump(mode="json", exclude=_MAY_CHANGE)


def read_tradeoff(path: Path, overrides: Mapping[str, str] | None = None) -> TradeoffConfiguration:
    """Read a TOML file, put the command line's values over it, and check everything.

    Raises:
        ConfigurationError: the file is missing or no TOML, a key is unknown or missing, or a value
            breaks its rule.
    """
    try:
        settings = read_toml(path)
    except FileNotFoundError as error:
        raise ConfigurationError(f"There is no configuration {path}.") from error
    settings |= {key: _value(key, text) for key, text in (overrides or {}).items()}
    try:
        return checked(settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def checked(settings: Mapping[str, object]) -> TradeoffConfiguration:
    """A configuration from keys and values, each protection tried.

    Raises:
        ConfigurationError: a rule is broken; names key, rule and value.
    """
    try:
        configuration = TradeoffConfiguration.model_validate(settings)
    except ValidationError as error:
        raise ConfigurationError(_first_problem(error)) from error
    _check_source(configuration)
    configuration = _beside_published(configuration)
    for key in ("seeds", "runs"):
        values = list(getattr(configuration, key))
        if len(set(values)) < len(values):
            raise ConfigurationError(f"{key}: a value is named twice. Name it once.")
    _check_protections(configuration)
    return configuration


def require_same_sweep(configuration: TradeoffConfiguration, folder: Path) -> None:
    """Refuse a folder that holds anything but this sweep; one that is missing or empty may be used.

    Raises:
        ConfigurationError: it holds something else, or a sweep with other settings.
        DataError: what it holds is damaged.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"--out: {folder} is no folder. Choose another name.")
    if (folder / CONFIGURATION_FILE).exists():
        kept, asked = read_kept(folder).fixed, configuration.fixed
        pairs = [(key, kept[key], asked[key]) for key in asked]
        differing = [_difference(*pair) for pair in pairs if pair[1] != pair[2]]
        if differing:
            raise ConfigurationError(
                f"--out: {folder} holds a sweep with other settings: {', '.join(differing)}. "
                f"Choose another folder; only {', '.join(sorted(_MAY_CHANGE))} may change."
            )
    elif folder.exists() and any(not _is_ours(path) for path in folder.iterdir()):
        raise ConfigurationError(
            f"--out: {folder} is not empty and holds no sweep. Choose another folder."
        )


def keep_configuration(configuration: TradeoffConfiguration, folder: Path) -> None:
    """Write the configuration into the sweep's folder; a sweep there must have the same data.

    The grid may have grown since, and the number of workers may differ.

    Raises:
        ConfigurationError: the folder holds something else, or a file of the data was replaced.
        StorageError: the folder cannot be written.
    """
    require_same_sweep(configuration, folder)
    _keep_sources(configuration, folder)
    with whole_file(folder / CONFIGURATION_FILE) as partial:
        partial.write_text(configuration.model_dump_json(indent=1), encoding="utf-8")


def read_kept(folder: Path) -> TradeoffConfiguration:
    """The configuration of a sweep's folder.

    Raises:
        DataError: it is missing or damaged.
    """
    path = folder / CONFIGURATION_FILE
    try:
        return TradeoffConfiguration.model_validate_json(path.read_bytes())
    except (OSError, ValidationError, CutlayerError) as error:
        raise DataError(
            f"{path} is missing or damaged. Choose another folder, or remove {folder} and start "
            "the sweep anew."
        ) from error


def _difference(key: str, kept: object, asked: object) -> str:
    """A setting that differs, with both values; of a table only its name."""
    if isinstance(kept, dict) or isinstance(asked, dict):
        return f"{key} differs"
    return f"{key} is {kept} there, {asked} here"


def _is_ours(path: Path) -> bool:
    """Whether a sweep that was killed before its configuration was written left this."""
    return path.name in (LOCK_FILE, SOURCES_FILE) or path.name.endswith(PARTIAL)


def _keep_sources(configuration: TradeoffConfiguration, folder: Path) -> None:
    """Mark the files that the data come from; a sweep does not go on with others."""
    c = configuration
    tables = [table.file for table in (c.label_party, c.non_label_party) if table is not None]
    schema = [] if c.prepared is None else [c.prepared / SCHEMA_FILE]
    paths = [*tables, *filter(None, [c.images]), *schema]
    marks = {str(path): source_mark(path.expanduser()) for path in paths if path.is_file()}
    kept = folder / SOURCES_FILE
    if not kept.exists():
        with whole_file(kept) as partial:
            partial.write_text(json.dumps(marks, indent=1), encoding="utf-8")
        return
    try:
        known = json.loads(kept.read_bytes())
        replaced = [path for path, mark in marks.items() if known.get(path, mark) != mark]
    except (ValueError, AttributeError) as error:
        raise DataError(
            f"{kept} is damaged. Choose another folder, or remove {folder} and start anew."
        ) from error
    if replaced:
        raise ConfigurationError(
            f"--out: {folder} holds a sweep on other data: {', '.join(replaced)} was replaced "
            "since. Choose another folder, or bring the file back."
        )


def _check_protections(configuration: TradeoffConfiguration) -> None:
    """Every protection can be made, and no two are the same."""
    known: list[tuple[Protection, str]] = []
    for spec in specs_of(configuration.protections):
        made = configuration.protection(spec)
        same = next((text for other, text in known if other == made), None)
        if same is not None:
            raise ConfigurationError(
                f"protections: {same} and {spec} are the same protection. Name it once."
            )
        known.append((made, spec))
    if max(len(run.name.encode()) for run in configuration.runs) > _LONGEST_NAME:
        raise ConfigurationError(
            f"protections: a text may have up to {_LONGEST_NAME - 30} bytes, as it names a folder. "
            "Shorten its numbers."
        )


def _check_source(configuration: TradeoffConfiguration) -> None:
    """One source of data, and a model that can take it."""
    c = configuration
    tables = (c.label_party is not None) + (c.non_label_party is not None)
    named = [c.data is not None, c.images is not None, c.prepared is not None, tables == 2]
    if sum(named) != 1 or tables == 1:
        raise ConfigurationError(f"Name one source of data: {', or '.join(_SOURCES)}.")
    if c.data is not None:
        known = DATASETS[c.data]
        try:
            known(**c.options)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"options: {c.data} refuses them ({error}).") from error
    elif c.options:
        raise ConfigurationError("options are for a bundled data set; name one as data.")
    for table in filter(None, (c.label_party, c.non_label_party)):
        table.table_file()
    if c.label_party is not None and c.label_party.label is None:
        raise ConfigurationError("label_party: the key 'label' is missing.")
    if c.non_label_party is not None and c.non_label_party.label is not None:
        raise ConfigurationError("non_label_party: only the label party has a label.")
    if c.prepared is not None:
        _check_prepared(c, PreparedData(c.prepared))
    if c.images is not None and not c.images.is_file():
        raise ConfigurationError(f"images: {c.images} must be a file, but there is none.")
    if c.images is None and c.image_side is not None:
        raise ConfigurationError("image_side is for images.")
    if c.model == "cnn" and c.images is None and c.prepared is None:
        raise ConfigurationError("model: cnn is for images. Use mlp, wide_deep or paper.")
    if c.model in ("mlp", "wide_deep") and c.images is not None:
        raise ConfigurationError(f"model: {c.model} is for tables. Use cnn or paper for images.")
    if isinstance(c.rows, float) and c.rows > 1:
        raise ConfigurationError(f"rows: a share is at most 1.0, got {c.rows}.")


def _check_prepared(configuration: TradeoffConfiguration, prepared: PreparedData) -> None:
    """A model that takes what was prepared."""
    kinds = ("cnn", "paper") if prepared.is_images else ("wide_deep", "paper")
    if configuration.model not in kinds:
        raise ConfigurationError(
            f"model: {configuration.model} does not take {prepared.schema['kind']} that were "
            f"prepared. Use {' or '.join(kinds)}."
        )


def _beside_published(configuration: TradeoffConfiguration) -> TradeoffConfiguration:
    """With the paper's points beside ours where the prepared data are Criteo's or Avazu's."""
    if configuration.prepared is None or configuration.published is not None:
        return configuration
    name = PreparedData(configuration.prepared).schema["plan"]["data"]
    known = {"published": name} if name in ("criteo", "avazu") else {}
    return configuration.model_copy(update=known)


def _value(key: str, text: str) -> object:
    """A command line's text as a value of this key; a protection has commas of its own."""
    field = TradeoffConfiguration.model_fields.get(key)
    if field is None or key == "protections":
        value = typed_value(None, text)
    else:
        value = typed_value(field.annotation, text)
    return [value] if key == "protections" and not isinstance(value, list) else value


def _first_problem(error: ValidationError) -> str:
    """The first rule that is broken, with key, rule and fix."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = list(TradeoffConfiguration.model_fields) + list(TableKeys.model_fields)
        near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=3) or known
        return f"unknown key {key!r}. Did you mean {' or '.join(near)}?"
    if problem["type"] == "missing":
        return f"the key {key!r} is missing."
    rule = problem["msg"].replace("Input should be", "must be").removeprefix("Value error, ")
    return f"{key}: {_WORDING.get(problem['type'], rule)}, got {problem['input']!r}."
