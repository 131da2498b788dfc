"""Two parties of one run in processes of their own, which tests kill, freeze and starve.

Processes are forked from a server that has imported torch, so that a start costs milliseconds.
"""

import json
import os
import signal
import sys
import traceback
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from cutlayer.audits import TRANSCRIPT, ReleaseRecorder
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.errors import CutlayerError
from cutlayer.models import Top, mlp
from cutlayer.parties import (
    InputShape,
    LabelParty,
    NonLabelParty,
    Persistence,
    ReleaseJournal,
    Terms,
)
from cutlayer.parties.handshake import Tell
from cutlayer.parties.top_half import MakeObservers
from cutlayer.protections import PROTECTIONS, parse_protection
from cutlayer.protocol import (
    Address,
    Deadlines,
    Endpoint,
    GrpcConnector,
    GrpcListener,
    Role,
    StreamConnector,
    StreamListener,
    load_identity,
)
from cutlayer.protocol.identity import word_of
from cutlayer.runs.reconnecting import until_done
from cutlayer.transcript import Transcript
from tests.faults.sabotage import commit
from tests.faults.wan import enter, namespace_of
from tests.fork_server import Untraced

PARTIES = ("label", "other")
ROLE = {"label": Role.LABEL, "other": Role.NON_LABEL}
DONE, JOURNAL, MESSAGES = "done.json", "journal", "messages"


@dataclass(frozen=True)
class Plan:
    """One run; small enough for a thousand kills."""

    folder: str
    port: int
    host: str = "127.0.0.1"
    """Of the label party."""
    records: int = 192
    batch_size: int = 32
    epochs: int = 6
    checkpoint_every: int = 4
    protection: str = "residual:sigma=1"
    staleness: int = 0
    micro_batches: int = 1
    transport: str = "plain"
    """``plain``, ``tls`` or ``grpc``; the latter two need ``identities``."""
    identities: str = ""
    link: str = ""
    """Name of the far link at whose ends the parties live; see :mod:`tests.faults.wan`."""
    wire: str = "float32"
    cut_width: int = 4
    dropout: float = 0.2
    """What torch's own generator decides must come out alike as well; 0 where both parties share
    the generator of one process."""
    record: bool = False
    """Whether the label party writes its messages down."""
    deadlines: dict[str, float] = field(
        default_factory=lambda: {"connect": 20.0, "handshake": 20.0, "step": 20.0}
    )
    wait: float = 60.0

    def of(self, party: str) -> Path:
        return Path(self.folder) / party

    @property
    def terms(self) -> Terms:
        return Terms(
            run="faults",
            data="faults",
            protection=self.protection,
            epochs=self.epochs,
            batch_size=self.batch_size,
            cut_width=self.cut_width,
            folds=4,
            order="nonces",
            checkpoint_every=self.checkpoint_every,
            staleness=self.staleness,
            micro_batches=self.micro_batches,
            wire=self.wire,
        )


def start(plan: Plan, party: str, sabotage: str = "") -> BaseProcess:
    """Start a party; it ends with status 0, or with 1 and a line in its folder's error.txt.

    Args:
        plan: of the run.
        party: ``label`` or ``other``.
        sabotage: what befalls the process; see :mod:`tests.faults.sabotage`.
    """
    process = Untraced(target=_play, args=(asdict(plan), party, sabotage), daemon=True)
    process.start()
    return process


def _play(settings: dict, party: str, sabotage: str) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    plan = Plan(**settings)
    folder = plan.of(party)
    folder.mkdir(parents=True, exist_ok=True)
    if plan.link:
        enter(namespace_of(plan.link, party))
    try:
        commit(sabotage)
        weights = _label(plan, folder) if party == "label" else _other(plan, folder)
        (folder / "partial").write_text(json.dumps(weights))
        (folder / "partial").rename(folder / DONE)
    except CutlayerError as error:
        with (folder / "error.txt").open("a") as file:
            file.write(f"{type(error).__name__}: {error}\n")
        sys.exit(1)
    except BaseException:
        (folder / "crash.txt").write_text(traceback.format_exc())
        raise


def records(count: int = 192) -> tuple[TensorRecords, TensorRecords]:
    """Both parties' records, the same in every process."""
    generator = torch.Generator().manual_seed(3)
    numbers = torch.randn(count, 5, generator=generator)
    labels = (numbers.sum(1) + torch.randn(count, generator=generator) > 0.5).long()
    ids = tuple(f"r{i:04d}" for i in range(count))
    return (
        TensorRecords("label party", ids, numbers[:, 3:], labels),
        TensorRecords("non-label party", ids, numbers[:, :3]),
    )


def endpoint(plan: Plan, party: str) -> Endpoint:
    """Where a party meets the other, by the plan's transport."""
    address = Address(plan.host, plan.port)
    identity = None
    if plan.transport != "plain":
        identity = load_identity(Path(plan.identities) / word_of(ROLE[party]), ROLE[party])
    if plan.transport == "grpc":
        assert identity is not None
        return (GrpcListener if party == "label" else GrpcConnector)(address, identity)
    return (StreamListener if party == "label" else StreamConnector)(address, identity)


def _adam(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def _make_top(name: str, cut_width: int, own: InputShape) -> torch.nn.Module:
    return Top(cut_width, own.shape[0], [8], torch.Generator().manual_seed(len(name)))


def label_party(plan: Plan, tell: Tell) -> tuple[LabelParty, ReleaseJournal]:
    """The label party of a plan, and its journal."""
    persistence = Persistence.in_folder(plan.of("label"), plan.protection)
    assert persistence.journal is not None
    party = LabelParty(
        records(plan.records)[0],
        plan.terms,
        parse_protection(plan.protection, PROTECTIONS),
        _make_top,
        _adam,
        noise=persistence.key.noise(),
        persistence=persistence,
        deadlines=Deadlines(**plan.deadlines),
        tell=tell,
        observers=_recorder_in(plan.of("label") / MESSAGES) if plan.record else None,
    )
    return party, persistence.journal


def _recorder_in(folder: Path) -> MakeObservers:
    """What lets a label party write its messages down."""
    return lambda agreement, _: [
        ReleaseRecorder(folder, agreement.ids, generator=torch.Generator().manual_seed(0))
    ]


def non_label_party(plan: Plan, tell: Tell) -> NonLabelParty:
    """The non-label party of a plan."""

    def make(own: InputShape) -> torch.nn.Module:
        body = mlp([own.width, 8, plan.cut_width], torch.Generator().manual_seed(1))
        return torch.nn.Sequential(torch.nn.Dropout(plan.dropout), body)

    return NonLabelParty(
        records(plan.records)[1],
        plan.terms,
        make,
        _adam,
        persistence=Persistence.in_folder(plan.of("other")),
        deadlines=Deadlines(**plan.deadlines),
        tell=tell,
    )


def _label(plan: Plan, folder: Path) -> dict[str, str]:
    party, journal = label_party(plan, _log(folder))
    with endpoint(plan, "label") as meeting:
        half = until_done(
            party.run,
            meeting,
            made=lambda: party.steps_made,
            wait=plan.wait,
            tell=_log(folder),
        )
    return {
        **{name: digest_of(module) for name, module in half.halves.items()},
        "predictions": sha256(half.held_out_logit.numpy().tobytes()).hexdigest(),
        "released": str(journal.released),
        "recorded": digest_of_recording(folder / MESSAGES) if plan.record else "",
    }


def _other(plan: Plan, folder: Path) -> dict[str, str]:
    party = non_label_party(plan, _log(folder))
    with endpoint(plan, "other") as meeting:
        half = until_done(
            party.run,
            meeting,
            made=lambda: party.steps_made,
            wait=plan.wait,
            tell=_log(folder),
        )
    return {"bottom": digest_of(half.bottom)}


def digest_of(module: torch.nn.Module) -> str:
    """SHA-256 of a module's weights."""
    mark = sha256()
    for name, tensor in sorted(module.state_dict().items()):
        mark.update(name.encode() + tensor.numpy().tobytes())
    return mark.hexdigest()


def digest_of_recording(folder: Path) -> str:
    """SHA-256 of what was written down of the messages, in the order of sending."""
    mark = sha256()
    for release in Transcript(folder / TRANSCRIPT):
        mark.update(f"{release.step} {release.epoch}".encode())
        for tensor in (release.records, release.activation, release.gradient):
            mark.update(tensor.numpy().tobytes())
    return mark.hexdigest()


def _log(folder: Path) -> Tell:
    def tell(notice: str) -> None:
        with (folder / "notices.txt").open("a") as file:
            file.write(f"{os.getpid()} {notice}\n")

    return tell


def outcome(plan: Plan) -> dict[str, dict[str, str]]:
    """What both parties came to."""
    return {party: json.loads((plan.of(party) / DONE).read_text()) for party in PARTIES}
