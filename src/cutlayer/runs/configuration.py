"""Configuration: what one party says about its file, the training and itself, in TOML."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

import torch
from pydantic import (
    AfterValidator,
    ByteSize,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from pydantic_core import ErrorDetails
from typing_extensions import override

from cutlayer.audits.live.live_leak import LIVE_EVERY
from cutlayer.data import TableFile
from cutlayer.errors import ConfigurationError, UnknownNameError
from cutlayer.parties import Compute, Terms
from cutlayer.parties.compute import WEIGHT_DECAY
from cutlayer.parties.private_alignment import MAX_IDS
from cutlayer.parties.terms import MOST_EPOCHS, MOST_RECORDS, AlignmentForm, Mode
from cutlayer.protections import PROTECTIONS, NoNoise, Protection, parse_protection
from cutlayer.protocol import Address, Deadlines, Role
from cutlayer.runs.reading_keys import ReadingKeys
from cutlayer.runs.toml_file import read_toml
from cutlayer.runs.written_values import WrittenKeys, typed_value

FROZEN = "frozen"
"""In place of a protection: no gradient is sent at all."""

ALIGNED_IDS_FILE = "aligned_ids.parquet"


def _no_path(name: str) -> str:
    """Refuse the names that every folder has for itself and for the one around it."""
    if name in (".", ".."):
        raise ValueError("a name of a folder must be more than dots")
    return name


Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=r"^[\w.\-]+$"),
    AfterValidator(_no_path),
]


class RunKeys(WrittenKeys):
    """What a run is, where its parties meet, and what they agree on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: Name
    """Name of the run, equal at both parties."""
    file: Path
    id: str
    # Both stand here, too, since findings list the settings in the order of these keys.
    protection: str
    """Spelled out even where it is ``no_noise``; equal at both parties."""

    address: str = "127.0.0.1:7700"
    """Where the label party listens, and the non-label party connects to."""
    transport: Literal["grpc", "tls"] = "grpc"
    """gRPC over TLS, or TLS 1.3 alone; equal at both parties."""
    identity: Path = Path("identity")
    """Folder with this party's key and certificate, and the peer's certificate."""
    insecure_loopback: bool = False
    """Plain text in place of ``transport``, between two processes of one machine."""
    folder: Path | None = None
    """Where this party keeps its run; by default ``runs/RUN/PARTY``."""
    wait: float = Field(default=300.0, gt=0, le=2_592_000)
    """Seconds to wait for the peer to appear; either party may start first."""
    step_deadline: float = Field(default=120.0, ge=1, le=86_400)
    """Seconds that the peer may take for a message; then the connection counts as lost."""

    log: Path | None = None
    """Where the run is logged, a JSON object a line; it names no record, label or secret."""
    log_level: Literal["debug", "info", "warning"] = "info"
    """``debug`` has a line for each step."""
    metrics: str | None = None
    """HOST:PORT where Prometheus finds the metrics of the run; on loopback only."""
    metrics_open: bool = False
    """Whether ``metrics`` may be an address that other machines reach."""

    epochs: int = Field(default=20, ge=1, le=MOST_EPOCHS)
    batch_size: int = Field(default=512, ge=2, le=MOST_RECORDS)
    cut_width: int = Field(default=32, ge=1, le=1 << 20)
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    checkpoint_every: int = Field(default=100, ge=1, le=MOST_RECORDS)
    staleness: int = Field(default=0, ge=0, le=64)
    micro_batches: int = Field(default=1, ge=1, le=64)
    wire: Literal["float32", "bfloat16"] = "float32"
    validation_share: float = Field(default=0.1, ge=0, lt=1)
    test_share: float = Field(default=0.2, gt=0, lt=1)

    alignment: AlignmentForm = "digests"
    """How the parties find the records that both hold; equal at both parties."""
    aligned_ids: Path | None = None
    """Where ``cutlayer align`` writes the shared ids, and a training with ``private`` reads them;
    by default ``aligned_ids.parquet`` in the run's folder."""
    max_ids: int = Field(default=MAX_IDS, ge=1, lt=1 << 32)
    """The most ids that this party brings to a private alignment, or accepts from its peer."""


class PartyConfiguration(ReadingKeys, RunKeys):
    """Settings that both parties have. Unknown keys are errors.

    Pydantic lists the keys of the last base first, then those of the first, then these.
    """

    role: ClassVar[Role]

    model: str = "mlp"
    """This party's half: ``mlp``, ``wide_deep``, or ``package.module:Class``."""
    hidden: tuple[Annotated[int, Field(ge=1, le=1 << 16)], ...] = (64,)
    learning_rate: float = Field(default=2e-3, gt=0, le=1e6)
    weight_decay: float = Field(default=WEIGHT_DECAY, ge=0, le=1e6)
    """Times each weight, added to its gradient before Adam sees it."""
    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    threads: int = Field(default=1, ge=1, le=1024)
    """Of this party's process. Small networks are fastest with one, above all where both parties
    share a machine."""

    @property
    def run_folder(self) -> Path:
        """Where this party keeps its run."""
        return self.folder or Path("runs") / self.run / self.role.value.replace(" ", "-")

    @property
    def aligned_ids_file(self) -> Path:
        """Where the shared ids of a private alignment are kept."""
        return self.aligned_ids or self.run_folder / ALIGNED_IDS_FILE

    @property
    def meeting_point(self) -> Address:
        """The address, read.

        Raises:
            ConfigurationError: it is not HOST:PORT.
        """
        return Address.parse(self.address)

    @property
    def applied(self) -> Protection:
        """The protection, made anew. A goal for the whole training is planned for its epochs.

        Raises:
            ConfigurationError: the protection's text is wrong.
        """
        if self.protection == FROZEN:
            return NoNoise()  # never applied: nothing that depends on a label is sent
        try:
            return parse_protection(self.protection, PROTECTIONS, planned_releases=self.epochs)
        except UnknownNameError as error:
            raise UnknownNameError(_unknown_protection(self.protection)) from error

    @property
    def protection_settings(self) -> str:
        """Every setting of the protection, as text: two that are equal protect alike."""
        return FROZEN if self.protection == FROZEN else repr(self.applied)

    def terms(self, purpose: Literal["training", "prediction", "alignment"] = "training") -> Terms:
        """What this party wants both to agree on."""
        loop: Mode = "one round" if self.protection == FROZEN else "loop"
        return Terms(
            run=self.run,
            data=self.run,
            protection=self.protection,
            mode=loop if purpose == "training" else purpose,
            epochs=self.epochs,
            batch_size=self.batch_size,
            cut_width=self.cut_width,
            seed=self.seed,
            validation_share=self.validation_share,
            test_share=self.test_share,
            grouped=self.group is not None,
            alignment=self.alignment,
            order="nonces" if purpose == "training" else "seed",
            checkpoint_every=self.checkpoint_every,
            staleness=self.staleness,
            micro_batches=self.micro_batches,
            wire=self.wire,
        )

    @property
    def deadlines(self) -> Deadlines:
        """How long to wait for each message of the peer."""
        seconds = self.step_deadline
        return Deadlines(connect=max(60.0, seconds), handshake=seconds, step=seconds)

    @property
    def compute(self) -> Compute:
        """Device, precision, compilation."""
        autocast = torch.bfloat16 if self.precision == "bfloat16" else None
        return Compute(self.device, autocast, self.compile)


class NonLabelConfiguration(PartyConfiguration):
    """Settings of the non-label party."""

    role = Role.NON_LABEL

    allow_feature_copy: bool = False
    """Whether ``frozen`` may send components from which all features can be computed."""


class LabelConfiguration(PartyConfiguration):
    """Settings of the label party."""

    role = Role.LABEL

    label: str
    positive: str | int | float | bool | None = None
    negative: Literal["rest"] | None = None
    audit_every: int | None = Field(default=None, ge=0, le=MOST_RECORDS)
    """Attack one of every so many messages; 0: none; by default about 2 %, at least 20 of them."""
    cadence: float = Field(default=0.0, ge=0, le=30)
    """Seconds; replies leave at multiples of it, one or two after their request is taken up."""
    record: ByteSize = Field(default=ByteSize(0), ge=0, le=1 << 60)
    """Most space for the recording that ``cutlayer audit`` attacks, as ``1 GiB``; 0: none. Where
    the messages need more, the whole histories of fewer records are kept."""
    live_every: int = Field(default=LIVE_EVERY, ge=0, le=MOST_RECORDS)
    """Score every so many outgoing batches with cheap attacks for the progress line; 0: none."""
    warn_above: float | None = Field(default=None, gt=0.5, lt=1)
    """Warn when the live leak AUC rises above this."""
    stop_above: float | None = Field(default=None, gt=0.5, lt=1)
    """End the training when the live leak AUC rises above this. The moment of stopping depends on
    labels, so with this key nothing is guaranteed."""
    track: str | None = None
    """Where the live leak AUC is logged: ``tensorboard:FOLDER`` or ``mlflow:ADDRESS``."""
    safe_csv: bool = False
    """Whether ids in predictions that a spreadsheet would run get an apostrophe in front."""

    @property
    @override
    def protection_settings(self) -> str:
        """A run that may stop on labels has no bound, and none later without ``stop_above``."""
        settings = super().protection_settings
        return settings if self.stop_above is None else f"{settings} that may stop on labels"

    @override
    def table_file(self) -> TableFile:
        """With the label column."""
        return replace(
            super().table_file(),
            label_column=self.label,
            positive=self.positive,
            negative=self.negative,
        )


Configuration = TypeVar("Configuration", bound=PartyConfiguration)


def read_configuration(
    kind: type[Configuration], path: Path, overrides: Mapping[str, str] | None = None
) -> Configuration:
    """Read a TOML file, put the command line's values over it, and check everything.

    Args:
        kind: the party's configuration.
        path: the file.
        overrides: values as texts, by key; read as TOML where they are that, else as they stand.

    Raises:
        ConfigurationError: the file is missing or no TOML, a key is unknown or missing, or a value
            breaks its rule; the message names party, file, key, rule and fix.
    """
    party = kind.role.value
    settings = _toml(path, party)
    if kind.role is Role.NON_LABEL and "label" in settings:
        raise ConfigurationError(
            f"{party}: {path}: this is the label party's configuration, since it names a label "
            f"column. `cutlayer label-party {path}` starts it; the non-label party has a file of "
            "its own, without the key label."
        )
    for key, text in (overrides or {}).items():
        field = kind.model_fields.get(key)
        settings[key] = typed_value(None if field is None else field.annotation, text)
    try:
        configuration = kind.model_validate(settings)
    except ValidationError as error:
        problem = _first_problem(error)
        key = ".".join(str(part) for part in problem["loc"])
        where = f"--{key} (beside {path})" if key in (overrides or {}) else str(path)
        raise ConfigurationError(f"{party}: {where}: {_described(kind, problem)}") from error
    try:
        _require_real_use(configuration)
        _require_planned(configuration)
        _require_device(configuration.device)
        _require_reachable(configuration)
        _require_private_metrics(configuration)
        _require_live_audit(configuration)
        _ = configuration.terms()
        _ = configuration.compute, configuration.table_file()
    except ConfigurationError as error:
        raise ConfigurationError(f"{party}: {path}: {error}") from error
    except ValueError as error:
        raise ConfigurationError(f"{party}: {path}: {error}") from error
    return configuration


def _require_real_use(configuration: PartyConfiguration) -> None:
    """Refuse a protection that is for simulations only."""
    if configuration.applied.simulation_only:
        raise ConfigurationError(
            f"protection: {configuration.protection} may end a run because of the labels of a "
            "batch, which tells the peer; it is for simulations. Use statistics=averaged."
        )


def _require_planned(configuration: PartyConfiguration) -> None:
    """Refuse more epochs than the protection's goal is planned for."""
    planned = configuration.applied.planned_releases
    if planned is not None and planned < configuration.epochs:
        raise ConfigurationError(
            f"epochs: {configuration.protection} is planned for {planned} releases of each record, "
            f"and epochs is {configuration.epochs}. Lower epochs, or begin a run of another name "
            "that is planned for all of them."
        )


def _require_reachable(configuration: PartyConfiguration) -> None:
    """Refuse an address that is none, or that nobody can connect to."""
    address = configuration.meeting_point
    if address.port == 0 and configuration.role is Role.NON_LABEL:
        raise ConfigurationError(
            f"address: {address} has port 0, which lets a listener take any that is free. Name the "
            "port that the label party listens on."
        )


def _require_private_metrics(configuration: PartyConfiguration) -> None:
    """Refuse to show metrics to other machines unless that was asked for."""
    if configuration.metrics is None:
        return
    address = Address.parse(configuration.metrics, "metrics")
    if not address.is_loopback and not configuration.metrics_open:
        raise ConfigurationError(
            f"metrics: {address} can be reached from other machines, and anybody there can read "
            "how the run goes; the label party's also tell about labels. Use 127.0.0.1, or set "
            "metrics_open = true behind a firewall."
        )


def _require_live_audit(configuration: PartyConfiguration) -> None:
    """Refuse keys that would wait for a live leak AUC that nobody measures."""
    if not isinstance(configuration, LabelConfiguration) or configuration.live_every:
        return
    for key in ("stop_above", "warn_above", "track"):
        if getattr(configuration, key) is not None:
            raise ConfigurationError(
                f"{key}: it needs the live leak AUC, and live_every = 0 measures none. Set "
                f"live_every to 1 or more, or leave {key} out."
            )


def _require_device(device: str) -> None:
    """Refuse a device that this machine lacks, before the peer is met."""
    try:
        torch.zeros(1, device=device).item()  # "meta" has no values
    except (RuntimeError, AssertionError) as error:
        raise ConfigurationError(
            f"device: {device!r} cannot be used on this machine ({str(error).splitlines()[0]})."
        ) from error


def role_of(path: Path) -> Role:
    """Whose configuration a file is: the label party's names a label column.

    Raises:
        ConfigurationError: the file is missing or no TOML.
    """
    return Role.LABEL if "label" in _toml(path, "cutlayer") else Role.NON_LABEL


def _toml(path: Path, party: str) -> dict[str, object]:
    """The file's keys and values."""
    try:
        return read_toml(path)
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{party}: there is no configuration {path}. `cutlayer init` writes one."
        ) from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{party}: {error}") from error


def _first_problem(error: ValidationError) -> ErrorDetails:
    """The first rule that is broken; a mistyped key is also a missing one, and says more."""
    problems = error.errors()
    return next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])


def _described(kind: type[PartyConfiguration], problem: ErrorDetails) -> str:
    """A rule that is broken, with the key, the rule and the fix."""
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        other = NonLabelConfiguration if kind.role is Role.LABEL else LabelConfiguration
        if key in other.model_fields:
            return f"the key {key!r} is the {other.role.value}'s alone. Leave it out here."
        return f"unknown key {key!r}. {_suggestion(key, kind.model_fields)}"
    if problem["type"] == "missing":
        hint = ""
        if key == "protection":
            hint = (
                " A run does not start without one: name a protection, or write "
                'protection = "no_noise" if the labels may leave in clear.'
            )
        if key == "label":
            hint = (
                " It names the label column; a file without it is the non-label party's, which "
                "`cutlayer non-label-party` starts."
            )
        return f"the key {key!r} is missing.{hint}"
    rule = problem["msg"].removeprefix("Value error, ")
    return f"{key}: {rule}, got {problem['input']!r}."


def _unknown_protection(text: str) -> str:
    """Which protections there are, ``frozen`` among them, and which may have been meant."""
    name = text.partition(":")[0].strip()
    known = [*PROTECTIONS, FROZEN]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"No protection is called {name!r}. {hint}Known: {', '.join(known)}."


def _suggestion(key: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """Names that look alike, or all of them."""
    near = difflib.get_close_matches(key, list(known), n=3)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Known: {', '.join(known)}."
