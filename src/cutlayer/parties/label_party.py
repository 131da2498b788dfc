"""The label party: holds the labels and the top half; decides what leaves."""

from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from cutlayer.data import BatchSchedule, Encoder
from cutlayer.data.tensor_records import Records
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.models import require_row_independence
from cutlayer.parties.agreement import Agreement, agree_on
from cutlayer.parties.canaries import plant_canaries
from cutlayer.parties.checkpoint import CheckpointStore
from cutlayer.parties.compute import Compute, MakeOptimizer
from cutlayer.parties.evaluation import evaluate
from cutlayer.parties.handshake import EpochRange, shake_hands
from cutlayer.parties.inputs import QUERY_ROWS, Inputs, InputShape, encoded
from cutlayer.parties.ledger import Ledger
from cutlayer.parties.observers import ProgressObserver, ReleaseObserver
from cutlayer.parties.perturbing_heads import MESSAGE_TOP, GradientHead, Head, head_for
from cutlayer.parties.terms import Terms
from cutlayer.parties.top_half import MakeObservers, MakeTop, Prepared, TopHalf
from cutlayer.protections.base import Protection, require_finite
from cutlayer.protections.no_noise import NoNoise
from cutlayer.protocol import Deadlines, Kind, Role, Session, Shape, Transport
from cutlayer.rng import NoiseSource
from cutlayer.transcript.release import Release


class LabelParty:
    """One run of the label party.

    Args:
        records: a table, or tensors; with labels.
        terms: of the run; must equal the non-label party's.
        protection: what happens to each gradient; for mode "one round" none is used.
        make_top: builds a top half.
        make_optimizer: builds an optimizer for a top's parameters.
        noise: where the protection's randomness comes from.
        canaries: how many training records get a coin for a label, for an audit.
        observers: look at each release, from inside this party.
        progress: are told how far the training is.
        checkpoints: where the state is kept at the end of each epoch, to go on from.
        ledger: where releases are charged.
        compute: device, precision, accumulation, compilation.
        deadlines: how long to wait for the peer.

    Raises:
        ConfigurationError: checkpoints without a ledger, or with canaries; or a protection that
            only a simulation may use, with secret noise.
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
        checkpoints: CheckpointStore | None = None,
        ledger: Ledger | None = None,
        compute: Compute | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        if checkpoints is not None and (ledger is None or canaries):
            raise ConfigurationError(
                "label party: a run that can be gone on with needs a ledger of what was sent, and "
                "may have no canaries, whose coins are drawn anew at each start."
            )
        if protection.simulation_only and not noise.reproducible:
            raise ConfigurationError(
                f"label party: {protection.name} {protection.strength} ends a run at a batch of "
                "one class, which tells the peer all its labels. Use it in simulations only."
            )
        self._records, self._terms, self._protection = records, terms, protection
        self._make_top, self._make_optimizer = make_top, make_optimizer
        self._noise, self._canaries = noise, canaries
        self._observers, self._progress = observers, progress
        self._checkpoints, self._ledger = checkpoints, ledger
        self._compute = compute or Compute()
        self._deadlines = deadlines

    def run(self, transport: Transport) -> TopHalf:
        """Train with the non-label party at the other end, and predict the held-out records.

        Raises:
            TermsMismatchError: the parties were started with different settings.
            DataError: the parties' records do not fit together.
            ConfigurationError: the run would send more than the protection is planned for, or a
                top does not fit.
            ProtectionError: the protection cannot be applied; the run ends before sending.
            ProtocolError: the peer breaks the protocol.
            ConnectionLostError: the peer is gone, silent, or ended the run.
        """
        kept = self._checkpoints.epochs if self._checkpoints else ()
        with self._session(transport) as session:
            agreement, epochs = shake_hands(
                session, self._terms, self._records, kept, self._epochs_left()
            )
            prepared = self._prepare(agreement)
            rows = prepared.agreement.held_out
            head: Head | None = None
            sent = (0, 0)
            if self._terms.mode == "one round":
                everything = torch.arange(len(prepared.labels))
                activation = self._receive_forward(session, Kind.FROZEN, everything)
            else:
                head = self._head(prepared.inputs)
                sent = self._train(session, head, prepared, epochs)
                activation = self._receive_forward(session, Kind.QUERY, rows)
            session.receive_fields(Kind.BYE)
            session.send_fields(Kind.BYE)
        if head is None:  # after the farewell: the peer need not wait for a training without it
            head, activation = self._fit_alone(prepared, activation), activation[rows]
        logit = self._predict(head, activation, prepared.inputs.values[rows])
        return self._result(head, prepared, logit, epochs, sent)

    def run_alone(self) -> TopHalf:
        """Train on the own features only: the baseline that needs no peer and sends nothing."""
        groups = None
        if self._records.groups is not None:
            groups = dict(zip(self._records.ids, self._records.groups, strict=True))
        prepared = self._prepare(agree_on(self._records.ids, self._terms, groups))
        nothing = torch.zeros(len(prepared.labels), 0)
        head = self._fit_alone(prepared, nothing)
        rows = prepared.agreement.held_out
        logit = self._predict(head, nothing[rows], prepared.inputs.values[rows])
        epochs = EpochRange(0, self._terms.epochs)
        return self._result(head, prepared, logit, epochs, (0, 0))

    def predict(
        self,
        transport: Transport,
        fill: Callable[[dict[str, nn.Module]], None],
        encoder: Encoder | None,
    ) -> tuple[Agreement, Tensor]:
        """Predict all records that both parties hold.

        Args:
            transport: to the non-label party.
            fill: puts trained weights into the tops, which are given by name.
            encoder: of the training; ``None`` for tensor records.

        Returns:
            The agreement, and log-odds in the order of its ``ids``.

        Raises:
            TermsMismatchError, DataError, ProtocolError, ConnectionLostError: as :meth:`run`.
        """
        with self._session(transport) as session:
            agreement, _ = shake_hands(session, self._terms, self._records)
            inputs = encoded(self._records, agreement, encoder)
            head = self._head(inputs)
            fill(head.halves)
            rows = agreement.held_out
            activation = self._receive_forward(session, Kind.QUERY, rows)
            session.receive_fields(Kind.BYE)
            session.send_fields(Kind.BYE)
        return agreement, self._predict(head, activation, inputs.values[rows])

    def _session(self, transport: Transport) -> Session:
        """This party's end of the run."""
        return Session(Role.LABEL, transport, run=self._terms.run, deadlines=self._deadlines)

    def _prepare(self, agreement: Agreement) -> Prepared:
        """Order and encode the own records, and plant the canaries."""
        labels = self._records.ordered_by(agreement.ids).labels
        if labels is None:
            raise DataError(
                "label party: training needs labels, and the records have none. Name their column."
            )
        planted = plant_canaries(labels, agreement.train, self._canaries, self._noise)
        return Prepared(agreement, encoded(self._records, agreement), planted, labels)

    def _train(
        self, session: Session, head: Head, prepared: Prepared, epochs: EpochRange
    ) -> tuple[int, int]:
        """The loop: activation in, perturbed gradient out, update; returns messages and rows."""
        observers = (
            self._observers(prepared.agreement, prepared.canaries) if self._observers else ()
        )
        if self._checkpoints and epochs.begin:
            self._checkpoints.load(epochs.begin, head.halves, head.optimizers)
        schedule = self._schedule(prepared)
        releases = sent = 0
        first, last = (epoch * schedule.batches_per_epoch for epoch in (epochs.begin, epochs.end))
        for step, epoch, positions in islice(schedule.from_step(first), last - first):
            if self._ledger and step % schedule.batches_per_epoch == 0:
                self._ledger.begin_epoch()
            rows = prepared.agreement.train[positions]
            self._step(session, head, prepared, observers, step, epoch, rows)
            ends_epoch = (step + 1) % schedule.batches_per_epoch == 0
            head.update(flush=ends_epoch)
            if self._checkpoints and ends_epoch:
                self._checkpoints.save(epoch + 1, head.halves, head.optimizers)
            releases, sent = releases + 1, sent + len(rows)
            self._tell(step + 1, last, len(rows))
        return releases, sent

    def _step(
        self,
        session: Session,
        head: Head,
        prepared: Prepared,
        observers: Sequence[ReleaseObserver],
        step: int,
        epoch: int,
        rows: Tensor,
    ) -> None:
        """One batch: receive, answer, send, and only then let observers look."""
        shape = Shape(len(rows), self._terms.cut_width)
        activation = session.receive_tensor(Kind.ACTIVATION, shape, step=step)
        labels = prepared.canaries.labels[rows]
        answer = head.answer(
            self._compute.place(activation),
            self._compute.place(prepared.inputs.values[rows]),
            self._compute.place(labels),
            audited=bool(observers),
        )
        require_finite(answer.gradient, f"the gradient of step {step}")
        session.send_tensor(Kind.GRADIENT, answer.gradient, step=step)
        if answer.clean_gradient is not None:
            release = Release(step, epoch, rows, activation, answer.gradient.cpu())
            for observer in observers:
                observer.on_release(release, labels, answer.clean_gradient.cpu())

    def _epochs_left(self) -> int | None:
        """How many more epochs the protection is planned for; ``None`` where nothing is planned.

        Raises:
            ConfigurationError: earlier epochs of this run were sent under another protection, or
                the plan is shorter than a run that has no ledger.
        """
        begun = self._ledger.epochs_begun if self._ledger else 0
        if self._checkpoints and begun < max(self._checkpoints.epochs, default=0):
            raise DataError(
                "label party: there are checkpoints of more epochs than the ledger has charged, so "
                "it is not the ledger of this run. Put it back, or begin a run of another name."
            )
        planned = self._protection.planned_releases
        if planned is None or self._terms.mode != "loop":
            return None
        if self._ledger is None and planned < self._terms.epochs:
            raise ConfigurationError(
                f"label party: {self._protection.name} is planned for {planned} releases of each "
                f"record, but the terms say {self._terms.epochs} epochs. Plan for all of them."
            )
        return max(0, planned - begun)

    def _fit_alone(self, prepared: Prepared, activation: Tensor) -> GradientHead:
        """Train a clean top on activations that do not change; nothing is sent."""
        top = self._top(prepared.inputs, "top", activation.shape[1])
        head = GradientHead(top, NoNoise(), self._make_optimizer, self._noise, self._compute)
        schedule, place = self._schedule(prepared), self._compute.place
        for step, _, positions in schedule:
            rows = prepared.agreement.train[positions]
            labels = prepared.canaries.labels[rows]
            head.fit(place(activation[rows]), place(prepared.inputs.values[rows]), place(labels))
            self._tell(step + 1, len(schedule), len(rows))
        return head

    def _head(self, inputs: Inputs) -> Head:
        """The head of the run's protection."""

        def make_top(name: str) -> nn.Module:
            return self._top(inputs, name, self._terms.cut_width)

        return head_for(
            self._protection, make_top, self._make_optimizer, self._noise, self._compute
        )

    def _top(self, inputs: Inputs, name: str, cut_width: int) -> nn.Module:
        """A top that couples no rows."""
        own = InputShape((0,)) if name == MESSAGE_TOP else inputs.shape
        top = self._make_top(name, cut_width, own)
        require_row_independence(top, "label party")
        return top.to(self._compute.device)

    def _predict(self, head: Head, activation: Tensor, own_features: Tensor) -> Tensor:
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
                session.receive_tensor(kind, Shape(len(rows), self._terms.cut_width), step=index)
                for index, rows in enumerate(records.split(QUERY_ROWS))
            ]
        )

    def _schedule(self, prepared: Prepared) -> BatchSchedule:
        """The order of the batches."""
        count, terms = len(prepared.agreement.train), self._terms
        return BatchSchedule(count, terms.batch_size, terms.epochs, seed=terms.seed)

    def _result(
        self,
        head: Head,
        prepared: Prepared,
        logit: Tensor,
        epochs: EpochRange,
        sent: tuple[int, int],
    ) -> TopHalf:
        """Evaluate on true labels and gather what the run leaves."""
        agreement, labels = prepared.agreement, prepared.labels
        split = len(agreement.validation)
        validation = None
        if split:
            validation = evaluate(logit[:split], labels[agreement.validation], "validation")
        test = evaluate(logit[split:], labels[agreement.test], "test")
        share = float(labels[agreement.train].double().mean())
        return TopHalf(
            head.halves, prepared.inputs, agreement, logit, validation, test, share, epochs, *sent
        )

    def _tell(self, step: int, steps: int, rows: int) -> None:
        """Pass the progress on."""
        for observer in self._progress:
            observer.on_progress(step, steps, rows)
