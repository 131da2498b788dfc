"""The non-label party: holds features and the bottom half; sees no label."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cutlayer.data import Encoder, MicroBatch
from cutlayer.data.tensor_records import Records
from cutlayer.errors import ConfigurationError
from cutlayer.models import frozen_projection
from cutlayer.parties.agreement import Agreement
from cutlayer.parties.checkpoint import naming
from cutlayer.parties.compute import Accumulator, Compute, MakeOptimizer
from cutlayer.parties.crossing_features import refused_copy, what_crosses
from cutlayer.parties.events import Event, EventKind, OnEvent, ignore_event
from cutlayer.parties.handshake import (
    Opening,
    ResumeState,
    Tell,
    once,
    say_nothing,
    shake_hands,
)
from cutlayer.parties.in_flight import InFlightBatch, copied_weights, forward_with
from cutlayer.parties.inputs import QUERY_ROWS, Inputs, InputShape, encoded
from cutlayer.parties.observers import HalfObserver, ProgressObserver
from cutlayer.parties.persistence import Persistence
from cutlayer.parties.private_alignment import MAX_IDS
from cutlayer.parties.terms import Terms
from cutlayer.protocol import (
    Deadlines,
    ErrorCode,
    Kind,
    OutboxTransport,
    Role,
    Session,
    Shape,
    Transport,
)

_NAME = "bottom"

MakeBottom = Callable[[InputShape], nn.Module]
"""Builds a bottom half for the shape of one record. It maps ``(examples, ...)`` to an activation of
shape ``(examples, ...)`` with ``cut_width`` numbers for each example."""
MakeHalfObservers = Callable[[Agreement, Tensor], Sequence[HalfObserver]]


@dataclass(frozen=True)
class BottomHalf:
    """What the non-label party has after a run."""

    bottom: nn.Module
    inputs: Inputs
    """Its records as numbers, and the encoder that made them."""
    agreement: Agreement
    step: int = 0
    """Steps of the loop that it has learnt from, over all starts; 0 where there is none."""


class NonLabelParty:
    """One run of the non-label party.

    Args:
        records: a table, or tensors.
        terms: of the run; must equal the label party's.
        make_bottom: builds the bottom half.
        make_optimizer: builds its optimizer.
        observers: are shown the half at each step.
        progress: are told how far the training is.
        persistence: what lets the run be gone on with after an interruption.
        compute: device, precision, compilation.
        deadlines: how long to wait for the peer.
        max_ids: the largest number of records that the peer may announce.
        allow_feature_copy: whether mode "one round" may send components from which the peer can
            compute every feature, but for 1 % of its variance or less.
        tell: takes notices for the operator.
        on_event: told what happens, for logs and metrics.

    Raises:
        ConfigurationError: a compiled bottom cannot work with staleness.
    """

    def __init__(
        self,
        records: Records,
        terms: Terms,
        make_bottom: MakeBottom,
        make_optimizer: MakeOptimizer,
        *,
        observers: MakeHalfObservers | None = None,
        progress: Sequence[ProgressObserver] = (),
        persistence: Persistence | None = None,
        compute: Compute | None = None,
        deadlines: Deadlines | None = None,
        max_ids: int = MAX_IDS,
        allow_feature_copy: bool = False,
        tell: Tell = say_nothing,
        on_event: OnEvent = ignore_event,
    ) -> None:
        self._records, self._terms = records, terms
        self._make_bottom, self._make_optimizer = make_bottom, make_optimizer
        self._observers, self._progress = observers, progress
        self._persistence = persistence
        self._compute = compute or Compute()
        self._deadlines = deadlines
        self._max_ids, self._tell_operator = max_ids, once(tell)
        self._allow_feature_copy = allow_feature_copy
        self._on_event = on_event
        self._inputs: tuple[str, Inputs] | None = None
        self.steps_made = 0
        """Steps whose gradient has come back, over all connections."""
        self.complete: BottomHalf | None = None
        """What this party has once it needs nothing more from its peer, though the peer may have
        missed its farewell."""
        if terms.staleness and self._compute.compile:
            raise ConfigurationError(
                "non-label party: staleness trains with copies of the weights, which a compiled "
                "bottom does not take. Set compile or staleness to its default."
            )

    def run(
        self, transport: Transport, keep: Callable[[BottomHalf], None] | None = None
    ) -> BottomHalf:
        """Train with the label party at the other end, and send what it needs to predict.

        After a lost connection, call it again with a new transport: with persistence at both
        parties, it goes on from the newest state that both have.

        Args:
            transport: to the label party.
            keep: given the result before the peer is told that this party needs nothing more.

        Raises:
            TermsMismatchError: the parties were started with different settings.
            DataError: the parties' records do not fit together.
            ConfigurationError: the bottom half does not fit the terms, or the components that would
                cross are a copy of the features, which was not allowed.
            ProtocolError: the peer breaks the protocol.
            ConnectionLostError: the peer is gone, silent, or ended the run.
        """
        with self._session(transport) as session:
            opening = self._shake_hands(session)
            agreement = opening.agreement
            inputs = self._encoded(opening)
            if self._terms.mode == "one round":
                step = 0
                bottom: nn.Module = self._project(session, inputs.values[agreement.train])
                self._keep_first_start()
                everything = torch.arange(len(agreement.ids))
                self._send_forward(session, Kind.FROZEN, bottom, inputs.values, everything)
            else:
                bottom = self._make_bottom(inputs.shape).to(self._compute.device)
                step = self._train(session, bottom, inputs.values, opening)
                rows = agreement.held_out
                self._send_forward(session, Kind.QUERY, bottom, inputs.values, rows)
            half = BottomHalf(bottom, inputs, agreement, step)
            if keep is not None:
                keep(half)
            session.send_fields(Kind.BYE)
            self.complete = half
            session.receive_fields(Kind.BYE)
        return half

    def predict(
        self,
        transport: Transport,
        fill: Callable[[nn.Module], None],
        encoder: Encoder | None,
        *,
        step: int = 0,
    ) -> Agreement:
        """Send the activations of all shared records, for the label party to predict.

        Args:
            transport: to the label party.
            fill: puts trained weights into the bottom half.
            encoder: of the training; ``None`` for tensor records.
            step: after which the half was kept; must equal the peer's.

        Raises:
            TermsMismatchError, DataError, ProtocolError, ConnectionLostError: as :meth:`run`.
        """
        with self._session(transport) as session:
            agreement = self._shake_hands(session, (step,)).agreement
            inputs = encoded(self._records, agreement, encoder)
            bottom = self._make_bottom(inputs.shape).to(self._compute.device)
            fill(bottom)
            self._send_forward(session, Kind.QUERY, bottom, inputs.values, agreement.held_out)
            session.send_fields(Kind.BYE)
            session.receive_fields(Kind.BYE)
        return agreement

    def _session(self, transport: Transport) -> Session:
        """This party's end of the run."""
        most_in_flight = self._terms.most_in_flight
        if most_in_flight > 1:
            transport = OutboxTransport(transport, most_in_flight)
        return Session(
            Role.NON_LABEL,
            transport,
            run=self._terms.run,
            most_in_flight=most_in_flight,
            deadlines=self._deadlines,
        )

    def _shake_hands(self, session: Session, kept: tuple[int, ...] = ()) -> Opening:
        """Meet the peer from where this party stands, or with the half that it kept."""
        copies = self._allow_feature_copy and self._terms.mode == "one round"
        standing = ResumeState(checkpoints=kept, max_ids=self._max_ids, feature_copy=copies)
        if self._persistence is not None:
            standing = replace(
                standing,
                checkpoints=self._persistence.checkpoints.steps,
                order_nonce=self._persistence.key.order_nonce,
                pin_order=self._persistence.pin_order,
            )
        opening = shake_hands(session, self._terms, self._records, standing, self._tell_operator)
        self._on_event(Event(EventKind.HANDSHAKE, step=opening.step))
        return opening

    def _encoded(self, opening: Opening) -> Inputs:
        """The own records as numbers; made once, however often this party meets its peer."""
        agreement = opening.agreement
        if self._inputs is None or self._inputs[0] != agreement.digest:
            if self._persistence is None:
                inputs = encoded(self._records, agreement)
            else:
                begun = opening.begun if self._terms.mode == "loop" else None
                inputs = self._persistence.first_start.encoded(
                    self._records, agreement, begun=begun, tell=self._tell_operator
                )
            for notice in inputs.notices:
                self._tell_operator(notice)
            self._inputs = agreement.digest, inputs
        return self._inputs[1]

    def _project(self, session: Session, features: Tensor) -> nn.Module:
        """The components of the features, unless they are a copy that nobody allowed."""
        layer = frozen_projection(features, self._terms.cut_width)
        carried = layer.carried
        if carried.is_copy and not self._allow_feature_copy:
            session.abort(ErrorCode.COPY)
            raise ConfigurationError(f"non-label party: {refused_copy(carried)}")
        self._tell_operator(f"non-label party: {what_crosses(carried)}")
        return layer

    def _keep_first_start(self) -> None:
        """Put on record what the data were, before anything leaves that depends on them."""
        if self._persistence is not None:
            self._persistence.first_start.keep()

    def _train(self, session: Session, bottom: nn.Module, values: Tensor, opening: Opening) -> int:
        """The loop: activation over, gradient back, update; the step that it has come to."""
        agreement = opening.agreement
        observers = self._observers(agreement, values) if self._observers else ()
        optimizer = self._make_optimizer(list(bottom.parameters()))
        self._take_up(bottom, optimizer, opening.step)
        self._keep_first_start()
        steps = Accumulator(optimizer)
        own_forward = forward = self._compute.forward_of(bottom)
        weights = None
        schedule = self._terms.schedule(len(agreement.train), agreement.order_seed, Role.NON_LABEL)
        flights: deque[InFlightBatch] = deque()
        for part in schedule.from_step(opening.step):
            settled = self._terms.keeps_after(part, schedule.batches_per_epoch)
            if self._persistence is not None:
                self._persistence.key.seed_torch(part.step)
            rows = self._compute.place(values[agreement.train[part.positions]])
            if self._terms.staleness and weights is None:
                weights = copied_weights(bottom)
                forward = self._compute.precise(forward_with(bottom, weights))
            activation = self._flat(forward(rows), len(rows))
            message = activation.to(self._terms.wire_dtype)
            session.send_tensor(Kind.ACTIVATION, message, step=part.step)
            for observer in observers:
                observer(part.step, bottom)
            flights.append(InFlightBatch(part, activation, weights))
            if part.completes:
                weights, forward = None, own_forward
                # No activation may be on its way when the state is kept.
                late = 0 if settled else self._terms.staleness * self._terms.micro_batches
                while len(flights) > late:
                    flight = flights.popleft()
                    self._land(session, flight, bottom, steps)
                    self._tell(flight.part, len(schedule))
            if self._persistence is not None and settled:
                self._keep_state(bottom, optimizer, part.step + 1)
        return max(opening.step, len(schedule))  # an earlier start may have had more epochs

    def _land(
        self, session: Session, flight: InFlightBatch, bottom: nn.Module, steps: Accumulator
    ) -> None:
        """Wait for the gradient of an activation, and learn from it."""
        rows, width = flight.activation.shape
        shape = Shape(rows, width, self._terms.wire_dtype)
        gradient = session.receive_tensor(Kind.GRADIENT, shape, step=flight.part.step)
        self.steps_made = max(self.steps_made, flight.part.step + 1)
        steps.begin()
        flight.land(bottom, self._compute.place(gradient.float()))
        steps.finish(complete=flight.part.completes)

    def _tell(self, part: MicroBatch, steps: int) -> None:
        """Pass the progress on."""
        for watcher in self._progress:
            watcher.on_progress(part.step + 1, steps, len(part.positions))

    def _take_up(self, bottom: nn.Module, optimizer: torch.optim.Optimizer, begin: int) -> None:
        """Go on from a kept state, or keep the first one, so that there always is one."""
        if self._persistence is None:
            return
        if begin in self._persistence.checkpoints.steps:
            with naming(Role.NON_LABEL):
                self._persistence.checkpoints.load(begin, {_NAME: bottom}, {_NAME: optimizer})
        else:
            self._keep_state(bottom, optimizer, begin)

    def _keep_state(self, bottom: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Write a checkpoint."""
        if self._persistence is not None:
            began = time.monotonic()
            self._persistence.checkpoints.save(step, {_NAME: bottom}, {_NAME: optimizer})
            seconds = time.monotonic() - began
            self._on_event(Event(EventKind.CHECKPOINT, step=step, seconds=seconds))

    def _flat(self, activation: Tensor, rows: int) -> Tensor:
        """One row of ``cut_width`` numbers for each record, whatever the cut's shape.

        Raises:
            ConfigurationError: the bottom gives another number of rows or numbers.
        """
        flat = activation.reshape(len(activation), -1) if activation.ndim > 1 else activation
        if flat.shape != (rows, self._terms.cut_width):
            raise ConfigurationError(
                f"non-label party: the bottom turns {rows} records into an activation of "
                f"shape {tuple(activation.shape)}, but cut_width is {self._terms.cut_width}. "
                "Change the one or the other."
            )
        return flat

    def _send_forward(
        self, session: Session, kind: Kind, bottom: nn.Module, values: Tensor, records: Tensor
    ) -> None:
        """Send the activations of these records in batches, as the trained half makes them."""
        bottom.eval()
        forward = self._compute.forward_of(bottom)
        with torch.no_grad():
            for index, rows in enumerate(records.split(QUERY_ROWS)):
                activation = forward(self._compute.place(values[rows]))
                message = self._flat(activation, len(rows)).to(self._terms.wire_dtype)
                session.send_tensor(kind, message, step=index)
