"""The non-label party: holds features and the bottom half; sees no label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import torch
from torch import Tensor, nn

from cutlayer.data import BatchSchedule, Encoder
from cutlayer.data.tensor_records import Records
from cutlayer.errors import ConfigurationError
from cutlayer.models import frozen_projection
from cutlayer.parties.agreement import Agreement
from cutlayer.parties.checkpoint import CheckpointStore
from cutlayer.parties.compute import Accumulator, Compute, Forward, MakeOptimizer
from cutlayer.parties.handshake import EpochRange, shake_hands
from cutlayer.parties.inputs import QUERY_ROWS, Inputs, InputShape, encoded
from cutlayer.parties.observers import HalfObserver, ProgressObserver
from cutlayer.parties.terms import Terms
from cutlayer.protocol import Deadlines, Kind, Role, Session, Shape, Transport

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


class NonLabelParty:
    """One run of the non-label party.

    Args:
        records: a table, or tensors.
        terms: of the run; must equal the label party's.
        make_bottom: builds the bottom half.
        make_optimizer: builds its optimizer.
        observers: are shown the half at each step.
        progress: are told how far the training is.
        checkpoints: where the state is kept at the end of each epoch, to go on from.
        compute: device, precision, accumulation, compilation.
        deadlines: how long to wait for the peer.
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
        checkpoints: CheckpointStore | None = None,
        compute: Compute | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._records, self._terms = records, terms
        self._make_bottom, self._make_optimizer = make_bottom, make_optimizer
        self._observers, self._progress = observers, progress
        self._checkpoints = checkpoints
        self._compute = compute or Compute()
        self._deadlines = deadlines

    def run(self, transport: Transport) -> BottomHalf:
        """Train with the label party at the other end, and send what it needs to predict.

        Raises:
            TermsMismatchError: the parties were started with different settings.
            DataError: the parties' records do not fit together.
            ConfigurationError: the bottom half does not fit the terms.
            ProtocolError: the peer breaks the protocol.
            ConnectionLostError: the peer is gone, silent, or ended the run.
        """
        kept = self._checkpoints.epochs if self._checkpoints else ()
        with self._session(transport) as session:
            agreement, epochs = shake_hands(session, self._terms, self._records, kept)
            inputs = encoded(self._records, agreement)
            if self._terms.mode == "one round":
                train = inputs.values[agreement.train]
                bottom: nn.Module = frozen_projection(train, self._terms.cut_width)
                everything = torch.arange(len(agreement.ids))
                self._send_forward(session, Kind.FROZEN, bottom, inputs.values, everything)
            else:
                bottom = self._make_bottom(inputs.shape).to(self._compute.device)
                self._train(session, bottom, inputs.values, agreement, epochs)
                rows = agreement.held_out
                self._send_forward(session, Kind.QUERY, bottom, inputs.values, rows)
            session.send_fields(Kind.BYE)
            session.receive_fields(Kind.BYE)
        return BottomHalf(bottom, inputs, agreement)

    def predict(
        self,
        transport: Transport,
        fill: Callable[[nn.Module], None],
        encoder: Encoder | None,
    ) -> Agreement:
        """Send the activations of all shared records, for the label party to predict.

        Args:
            transport: to the label party.
            fill: puts trained weights into the bottom half.
            encoder: of the training; ``None`` for tensor records.

        Raises:
            TermsMismatchError, DataError, ProtocolError, ConnectionLostError: as :meth:`run`.
        """
        with self._session(transport) as session:
            agreement, _ = shake_hands(session, self._terms, self._records)
            inputs = encoded(self._records, agreement, encoder)
            bottom = self._make_bottom(inputs.shape).to(self._compute.device)
            fill(bottom)
            self._send_forward(session, Kind.QUERY, bottom, inputs.values, agreement.held_out)
            session.send_fields(Kind.BYE)
            session.receive_fields(Kind.BYE)
        return agreement

    def _session(self, transport: Transport) -> Session:
        """This party's end of the run."""
        return Session(Role.NON_LABEL, transport, run=self._terms.run, deadlines=self._deadlines)

    def _train(
        self,
        session: Session,
        bottom: nn.Module,
        values: Tensor,
        agreement: Agreement,
        epochs: EpochRange,
    ) -> None:
        """The loop: activation over, gradient back, update."""
        observers = self._observers(agreement, values) if self._observers else ()
        optimizer = self._make_optimizer(list(bottom.parameters()))
        if self._checkpoints and epochs.begin:
            self._checkpoints.load(epochs.begin, {_NAME: bottom}, {_NAME: optimizer})
        steps = Accumulator(optimizer, self._compute.accumulate)
        forward = self._compute.forward_of(bottom)
        schedule = self._schedule(agreement)
        first, last = (epoch * schedule.batches_per_epoch for epoch in (epochs.begin, epochs.end))
        for step, epoch, positions in islice(schedule.from_step(first), last - first):
            rows = values[agreement.train[positions]]
            activation = self._activation(forward, rows)
            session.send_tensor(Kind.ACTIVATION, activation, step=step)
            shape = Shape(*activation.shape)
            gradient = session.receive_tensor(Kind.GRADIENT, shape, step=step)
            for observer in observers:
                observer(step, bottom)
            steps.begin()
            # torch's autograd entry points carry no types.
            cast("Callable[[Tensor], None]", activation.backward)(self._compute.place(gradient))
            ends_epoch = (step + 1) % schedule.batches_per_epoch == 0
            steps.finish(flush=ends_epoch)
            if self._checkpoints and ends_epoch:
                self._checkpoints.save(epoch + 1, {_NAME: bottom}, {_NAME: optimizer})
            for watcher in self._progress:
                watcher.on_progress(step + 1, last, len(positions))

    def _activation(self, forward: Forward, rows: Tensor) -> Tensor:
        """One row of ``cut_width`` numbers for each record, whatever the cut's shape.

        Raises:
            ConfigurationError: the bottom gives another number of rows or numbers.
        """
        activation = forward(self._compute.place(rows))
        flat = activation.reshape(len(activation), -1) if activation.ndim > 1 else activation
        if flat.shape != (len(rows), self._terms.cut_width):
            raise ConfigurationError(
                f"non-label party: the bottom turns {len(rows)} records into an activation of "
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
                session.send_tensor(kind, self._activation(forward, values[rows]), step=index)

    def _schedule(self, agreement: Agreement) -> BatchSchedule:
        """The order of the batches."""
        terms = self._terms
        return BatchSchedule(len(agreement.train), terms.batch_size, terms.epochs, seed=terms.seed)
