"""The label party: holds the labels and the top half; decides what leaves."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor, nn

from cutlayer import check
from cutlayer.data import BatchSchedule, Encoder
from cutlayer.data.tensor_records import Records
from cutlayer.errors import ConfigurationError, ConnectionLostError, DataError
from cutlayer.models import require_uncoupled_top
from cutlayer.parties.agreement import Agreement, agree_on
from cutlayer.parties.canaries import plant_canaries
from cutlayer.parties.checkpoint import naming
from cutlayer.parties.compute import Compute, MakeOptimizer
from cutlayer.parties.crossing_features import allowed_copy, arrived, components_of
from cutlayer.parties.events import Event, EventKind, OnEvent, ignore_event
from cutlayer.parties.handshake import (
    Opening,
    ResumeState,
    Tell,
    once,
    say_nothing,
    shake_hands,
)
from cutlayer.parties.inputs import QUERY_ROWS, Inputs, InputShape, encoded
from cutlayer.parties.label_step import LabelStep, ReleaseRecord, keepers_among
from cutlayer.parties.observers import ProgressObserver, ReleaseObserver
from cutlayer.parties.persistence import Persistence
from cutlayer.parties.private_alignment import MAX_IDS
from cutlayer.parties.record_marks import RecordMarks
from cutlayer.parties.release_journal import SETTING, ReleaseJournal
from cutlayer.parties.terms import Terms
from cutlayer.parties.top_half import MakeObservers, MakeTop, Prepared, Sent, TopHalf
from cutlayer.parties.top_trainer import (
    MESSAGE_TOP,
    GradientTopTrainer,
    TopTrainer,
    top_trainer_for,
)
from cutlayer.protections.base import Protection
from cutlayer.protections.no_noise import NoNoise
from cutlayer.protocol import Deadlines, Kind, Role, Session, Shape, Transport
from cutlayer.rng import NoiseSource


class LabelParty:
    """One run of the label party.

    Between the first message and the farewell nothing is decided by labels, so that the peer learns
    nothing from when and how a session ends. What is, is decided here, or once the peer has left.

    Args:
        records: a table, or tensors; with labels. With persistence all that this party has, and not
            only what it shares with the peer: labels that have changed since the first start are
            refused, and whether they have must not depend on what the peer brings. Where these are
            only those of a private alignment, call ``persistence.hold_labels`` with all first.
        terms: of the run; must equal the non-label party's.
        protection: what happens to each gradient; for mode "one round" none is used.
        make_top: builds a top half.
        make_optimizer: builds an optimizer for a top's parameters.
        noise: where the protection's randomness comes from.
        canaries: how many training records get a coin for a label, for an audit.
        observers: look at each release, from inside this party.
        progress: are told how far the training is.
        persistence: what lets the run be gone on with after an interruption.
        compute: device, precision, compilation.
        deadlines: how long to wait for the peer.
        cadence: seconds; a reply leaves at a multiple of them, so that its time tells nothing as
            long as the work fits; see :func:`~cutlayer.parties.cadence.departure`. 0 sends it at
            once.
        max_ids: the largest number of records that the peer may announce.
        tell: takes notices for the operator.
        on_event: told what happens, for logs and metrics.

    Raises:
        ConfigurationError: persistence without a journal, or with canaries; a protection that only
            a simulation may use, with secret noise; a plan shorter than the training; or labels
            that have changed since the first start of the run.
        StorageError: what holds the labels cannot be written.
    """

    def __init__(
        self,
        records: Records,
        terms: Terms,
        protection: Protection,
        make_top: MakeTop,
        make_optimizer: MakeOptimizer,
        *,
        noise: NoiseSource,
        canaries: int = 0,
        observers: MakeObservers | None = None,
        progress: Sequence[ProgressObserver] = (),
        persistence: Persistence | None = None,
        compute: Compute | None = None,
        deadlines: Deadlines | None = None,
        cadence: float = 0.0,
        max_ids: int = MAX_IDS,
        tell: Tell = say_nothing,
        on_event: OnEvent = ignore_event,
    ) -> None:
        if persistence is not None and (persistence.journal is None or canaries):
            raise ConfigurationError(
                "label party: a run that can be gone on with needs a journal of what was sent, and "
                "may have no canaries, whose coins are drawn anew at each start."
            )
        check.not_negative("cadence", cadence)
        if protection.simulation_only and not noise.reproducible:
            raise ConfigurationError(
                f"label party: {protection.name} {protection.strength} ends a run at a batch of "
                "one class, which tells the peer all its labels. Use it in simulations only."
            )
        planned = protection.planned_releases
        if planned is not None and terms.mode == "loop" and planned < terms.epochs:
            raise ConfigurationError(
                f"label party: {protection.name} is planned for {planned} releases of each "
                f"record, but the terms say {terms.epochs} epochs. Plan for all of them."
            )
        self._records, self._terms, self._protection = records, terms, protection
        self._make_top, self._make_optimizer = make_top, make_optimizer
        self._noise, self._canaries = noise, canaries
        self._make_observers, self._progress = observers, progress
        self._persistence = persistence
        self._compute = compute or Compute()
        self._deadlines, self._cadence = deadlines, cadence
        self._max_ids, self._tell_operator = max_ids, once(tell)
        self._on_event = on_event
        if persistence is not None and terms.mode == "loop" and records.labels is not None:
            persistence.hold_labels(records.ids, records.labels)
        self._prepared: Prepared | None = None
        self._observers: Sequence[ReleaseObserver] | None = None
        self._sent = Sent(self._journalled)
        self.has_left = False
        """Whether the peer has all that it will get."""

    def run(self, transport: Transport, keep: Callable[[TopHalf], None] | None = None) -> TopHalf:
        """Train with the non-label party at the other end, and predict the held-out records.

        After a lost connection, call it again with a new transport: with persistence, it goes on
        from the newest state that both parties have. Without, what was sent cannot be taken up.

        Args:
            transport: to the non-label party.
            keep: given the result before the peer is told that this party has it; for mode "one
                round" once the connection is closed.

        Raises:
            TermsMismatchError: the parties were started with different settings.
            DataError: the records have no labels; the parties' records or states do not fit
                together; or a part of the split is too small.
            ConfigurationError: a top does not fit, earlier messages of this run had other settings,
                or there are some and no persistence.
            StorageError: the disk is full or broken; what depends on it was not sent.
            ProtectionError: the protection cannot be applied; the run ends before sending.
            ProtocolError: the peer breaks the protocol.
            ConnectionLostError: the peer is gone, silent, or ended the run.
        """
        if self._persistence is None and self._sent.releases:
            raise ConfigurationError(
                f"label party: {self._sent.releases} messages of this training have left, and "
                "nothing was kept to go on from: a second start would send every gradient anew, "
                "beyond what the protection was planned for. Give persistence, or make another "
                "LabelParty and count what this one has sent."
            )
        if self._records.labels is None:
            raise self._no_labels()
        with self._session(transport) as session:
            opening = self._shake_hands(session)
            prepared = self._prepare(opening.agreement, begun=opening.begun)
            if self._terms.mode == "loop":
                half = self._train_together(session, opening, prepared)
                _keep(half, keep)
                self._take_leave(session)
                return half
            self._schedule(prepared)  # refuses too few records while the peer can be told
            if opening.feature_copy:
                self._tell_operator(f"label party: {allowed_copy(self._terms.cut_width)}")
            everything = torch.arange(len(prepared.labels))
            activation = self._receive_forward(session, Kind.FROZEN, everything)
            crossed = arrived(components_of(activation), self._terms.cut_width)
            self._tell_operator(f"label party: {crossed}")
            self._keep_first_start()
            self._take_leave(session)
        # The connection is closed, so that the peer does not see how long this takes.
        half = replace(self._train_alone(prepared, activation), crossed=crossed)
        _keep(half, keep)
        return half

    def run_alone(self) -> TopHalf:
        """Train on the own features only: the baseline that needs no peer and sends nothing."""
        groups = None
        if self._records.groups is not None:
            groups = dict(zip(self._records.ids, self._records.groups, strict=True))
        prepared = self._prepare(agree_on(self._records.ids, self._terms, groups))
        return self._train_alone(prepared, torch.zeros(len(prepared.labels), 0))

    def predict(
        self,
        transport: Transport,
        fill: Callable[[dict[str, nn.Module]], None],
        encoder: Encoder | None,
        *,
        step: int = 0,
        keep: Callable[[Agreement, Tensor], None] | None = None,
    ) -> tuple[Agreement, Tensor]:
        """Predict all records that both parties hold.

        Args:
            transport: to the non-label party.
            fill: puts trained weights into the tops, which are given by name.
            encoder: of the training; ``None`` for tensor records.
            step: after which the tops were kept; must equal the peer's.
            keep: given the result before the peer is told that this party has it.

        Returns:
            The agreement, and log-odds in the order of its ``ids``.

        Raises:
            TermsMismatchError, DataError, ProtocolError, ConnectionLostError: as :meth:`run`.
        """
        with self._session(transport) as session:
            agreement = self._shake_hands(session, (step,)).agreement
            inputs = encoded(self._records, agreement, encoder)
            head = self._head(inputs)
            fill(head.halves)
            rows = agreement.held_out
            activation = self._receive_forward(session, Kind.QUERY, rows)
            logit = self._predict(head, activation, inputs.values[rows])
            if keep is not None:
                keep(agreement, logit)
            self._take_leave(session)
        return agreement, logit

    @property
    def steps_made(self) -> int:
        """Steps that were answered, over all starts and connections."""
        return self._sent.begin + self._sent.releases

    @property
    def _journal(self) -> ReleaseJournal | None:
        """What was answered; ``None`` where nothing is kept."""
        return self._persistence.journal if self._persistence else None

    @property
    def _journalled(self) -> int:
        """Steps that were answered before this start."""
        return self._journal.released if self._journal else 0

    def _session(self, transport: Transport) -> Session:
        """This party's end of the run."""
        return Session(Role.LABEL, transport, run=self._terms.run, deadlines=self._deadlines)

    def _shake_hands(self, session: Session, kept: tuple[int, ...] = ()) -> Opening:
        """Meet the peer from where this party stands, or with the tops that it kept."""
        standing = ResumeState(checkpoints=kept, max_ids=self._max_ids)
        if self._persistence is not None:
            standing = replace(
                standing,
                checkpoints=self._persistence.checkpoints.steps,
                released=self._journalled,
                order_nonce=self._persistence.key.order_nonce,
                pin_order=self._persistence.pin_order,
                pin_records=self._persistence.pin_records,
            )
        opening = shake_hands(session, self._terms, self._records, standing, self._tell_operator)
        self._on_event(Event(EventKind.HANDSHAKE, step=opening.step, released=self._journalled))
        return opening

    def _take_leave(self, session: Session) -> None:
        """Both have all they need."""
        session.receive_fields(Kind.BYE)
        self.has_left = True
        with suppress(ConnectionLostError):  # a peer that misses the answer ends all the same
            session.send_fields(Kind.BYE)

    def _prepare(self, agreement: Agreement, *, begun: bool = False) -> Prepared:
        """Order and encode the own records and plant the canaries, once for all connections."""
        before = self._prepared.agreement if self._prepared else None
        if self._prepared and before and before.training_alike(agreement):
            return self._prepared
        labels = self._records.ordered_by(agreement.ids).labels
        if labels is None:
            raise self._no_labels()
        planted = plant_canaries(labels, agreement.train, self._canaries, self._noise)
        inputs = self._encoded(agreement, begun=begun)
        for notice in inputs.notices:
            self._tell_operator(notice)
        marks = RecordMarks.made_by(
            self._noise, self._protection, self._records, agreement, planted, self._persistence
        )
        self._prepared = Prepared(agreement, inputs, planted, labels, marks)
        return self._prepared

    def _encoded(self, agreement: Agreement, *, begun: bool) -> Inputs:
        """The own features as numbers, as at the first start of the run."""
        if self._persistence is None:
            return encoded(self._records, agreement)
        return self._persistence.first_start.encoded(
            self._records,
            agreement,
            begun=begun if self._terms.mode == "loop" else None,
            tell=self._tell_operator,
        )

    def _keep_first_start(self) -> None:
        """Put on record what the own features were, before a reply leaves."""
        if self._persistence is not None:
            self._persistence.first_start.keep()

    @staticmethod
    def _no_labels() -> DataError:
        """The error for records that cannot be trained on."""
        return DataError(
            "label party: training needs labels, and the records have none. Name their column."
        )

    def _train_together(self, session: Session, opening: Opening, prepared: Prepared) -> TopHalf:
        """Train with the peer, and predict the held-out records."""
        head = self._head(prepared.inputs)
        step = self._train(session, head, prepared, opening.step)
        rows = prepared.agreement.held_out
        activation = self._receive_forward(session, Kind.QUERY, rows)
        logit = self._predict(head, activation, prepared.inputs.values[rows])
        return self._result(head, prepared, logit, step)

    def _train(self, session: Session, head: TopTrainer, prepared: Prepared, begin: int) -> int:
        """The loop: activation in, perturbed gradient out, update; the step that it has come to."""
        schedule = self._schedule(prepared)
        self._bind(prepared, schedule)  # before observers go on with what they kept
        if self._observers is None:
            make = self._make_observers
            self._observers = make(prepared.agreement, prepared.canaries) if make else ()
        self._take_up(head, begin)
        self._keep_first_start()
        step = LabelStep(
            session,
            head,
            prepared,
            ReleaseRecord(self._journal, self._observers, self._sent),
            terms=self._terms,
            compute=self._compute,
            cadence=self._cadence,
        )
        for part in schedule.from_step(begin):
            if self._persistence is not None:
                self._persistence.key.seed_torch(part.step)
            step.run(part)
            head.update(complete=part.completes)
            settled = self._terms.keeps_after(part, schedule.batches_per_epoch)
            if self._persistence is not None and settled:
                self._keep_state(head, part.step + 1)
            self._tell(part.step + 1, len(schedule), len(part.positions))
        return max(begin, len(schedule))  # an earlier start may have had more epochs

    def _bind(self, prepared: Prepared, schedule: BatchSchedule) -> None:
        """Hold this start to the terms and records of what was answered before."""
        if self._journal is None:
            return
        settings = {name: json.dumps(value) for name, value in self._terms.lasting_fields.items()}
        self._journal.bind(
            {
                **{f"{SETTING}{name}": value for name, value in settings.items()},
                "terms": self._terms.meaning,
                "records": prepared.agreement.digest,
                **prepared.marks.binding,
                "order": f"{prepared.agreement.order_seed:x}",
                "steps_per_epoch": str(schedule.steps_per_epoch),
            }
        )

    def _take_up(self, head: TopTrainer, begin: int) -> None:
        """Go on from a kept state, or keep the first one, so that there always is one."""
        if self._persistence is None:
            return
        store = self._persistence.checkpoints
        if begin in store.steps:
            with naming(Role.LABEL):
                state = store.load(begin, head.halves, head.optimizers)
            head.restore(state)
        else:
            self._keep_state(head, begin)

    def _keep_state(self, head: TopTrainer, step: int) -> None:
        """Write a checkpoint."""
        if self._persistence is not None:
            for keeper in keepers_among(self._observers or ()):
                keeper.on_checkpoint()
            began = time.monotonic()
            self._persistence.checkpoints.save(step, head.halves, head.optimizers, head.state())
            seconds = time.monotonic() - began
            self._on_event(Event(EventKind.CHECKPOINT, step=step, seconds=seconds))

    def _train_alone(self, prepared: Prepared, activation: Tensor) -> TopHalf:
        """Train a clean top on activations that do not change; nothing is sent."""
        top = self._top(prepared.inputs, "top", activation.shape[1])
        head = GradientTopTrainer(top, NoNoise(), self._make_optimizer, self._noise, self._compute)
        place = self._compute.place
        schedule = replace(self._schedule(prepared), micro_batches=1)  # nothing crosses
        for part in schedule:
            rows = prepared.agreement.train[part.positions]
            labels = prepared.training_labels[rows]
            head.fit(place(activation[rows]), place(prepared.inputs.values[rows]), place(labels))
            self._tell(part.step + 1, len(schedule), len(rows))
        rows = prepared.agreement.held_out
        logit = self._predict(head, activation[rows], prepared.inputs.values[rows])
        return self._result(head, prepared, logit)

    def _head(self, inputs: Inputs) -> TopTrainer:
        """The head of the run's protection."""

        def make_top(name: str) -> nn.Module:
            return self._top(inputs, name, self._terms.cut_width)

        return top_trainer_for(
            self._protection, make_top, self._make_optimizer, self._noise, self._compute
        )

    def _top(self, inputs: Inputs, name: str, cut_width: int) -> nn.Module:
        """A top that couples no rows."""
        own, values = inputs.shape, inputs.values
        if name == MESSAGE_TOP:
            own, values = InputShape((0,)), values.flatten(1)[:, :0]
        top = self._make_top(name, cut_width, own)
        require_uncoupled_top(top, cut_width, values, "label party")
        return top.to(self._compute.device)

    def _predict(self, head: TopTrainer, activation: Tensor, own_features: Tensor) -> Tensor:
        """Logits of these records, in batches, as the trained half makes them."""
        for half in head.halves.values():
            half.eval()
        place = self._compute.place
        batches = zip(activation.split(QUERY_ROWS), own_features.split(QUERY_ROWS), strict=True)
        return torch.cat([head.predict(place(a), place(f)).cpu() for a, f in batches])

    def _receive_forward(self, session: Session, kind: Kind, records: Tensor) -> Tensor:
        """Receive the activations of these records in batches."""
        return torch.cat(
            [
                session.receive_tensor(kind, self._shape(rows), step=index).float()
                for index, rows in enumerate(records.split(QUERY_ROWS))
            ]
        )

    def _shape(self, rows: Tensor) -> Shape:
        """What an activation of these records must look like."""
        return Shape(len(rows), self._terms.cut_width, self._terms.wire_dtype)

    def _schedule(self, prepared: Prepared) -> BatchSchedule:
        """The order of the messages."""
        agreement = prepared.agreement
        return self._terms.schedule(len(agreement.train), agreement.order_seed, Role.LABEL)

    def _result(
        self, head: TopTrainer, prepared: Prepared, logit: Tensor, step: int = 0
    ) -> TopHalf:
        """What the run leaves; nothing of it was decided by labels."""
        inputs, agreement, labels = prepared.inputs, prepared.agreement, prepared.labels
        return TopHalf(head.halves, inputs, agreement, logit, labels, self._sent, step)

    def _tell(self, step: int, steps: int, rows: int) -> None:
        """Pass the progress on."""
        for observer in self._progress:
            observer.on_progress(step, steps, rows)


def _keep(half: TopHalf, keep: Callable[[TopHalf], None] | None) -> None:
    """Hand the result over."""
    if keep is not None:
        keep(half)
