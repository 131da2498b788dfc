"""The non-label party: holds features and the bottom half; sees no label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cutlayer.data import BatchSchedule, Encoder, PartyTable
from cutlayer.errors import ConfigurationError
from cutlayer.models import frozen_projection
from cutlayer.parties.handshake import Agreement, shake_hands
from cutlayer.parties.heads import MakeOptimizer
from cutlayer.parties.observers import HalfObserver
from cutlayer.parties.terms import Terms
from cutlayer.protocol import Deadlines, Kind, Role, Session, Shape, Transport

QUERY_ROWS = 4096
"""Records of one message outside training."""

MakeBottom = Callable[[int], nn.Module]


@dataclass(frozen=True)
class BottomHalf:
    """What the non-label party has after a run."""

    bottom: nn.Module
    encoder: Encoder
    agreement: Agreement
    features: Tensor
    """Encoded features by record number, ``(records, columns)``."""


class NonLabelParty:
    """One run of the non-label party.

    Args:
        table: its records.
        terms: of the run; must equal the label party's.
        make_bottom: builds the bottom half for a number of encoded columns.
        make_optimizer: builds its optimizer.
        observers: are shown the half at each step.
        deadlines: how long to wait for the peer.
    """

    def __init__(
        self,
        table: PartyTable,
        terms: Terms,
        make_bottom: MakeBottom,
        make_optimizer: MakeOptimizer,
        *,
        observers: Callable[[Agreement, Tensor], Sequence[HalfObserver]] | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._table, self._terms = table, terms
        self._make_bottom, self._make_optimizer = make_bottom, make_optimizer
        self._observers = observers
        self._deadlines = deadlines

    def run(self, transport: Transport) -> BottomHalf:
        """Train with the label party at the other end.

        Raises:
            TermsMismatchError, DataError: the parties do not fit together.
            ProtocolError: the peer breaks the protocol.
            ConnectionLostError: the peer is gone, silent, or ended the run.
        """
        session = Session(Role.NON_LABEL, transport, run=self._terms.run, deadlines=self._deadlines)
        with session:
            agreement = shake_hands(session, self._terms, self._table)
            table = self._table.ordered_by(agreement.ids)
            encoder = Encoder.fit(table.ordered_by([agreement.ids[i] for i in agreement.train]))
            features = encoder.encode(table)
            if self._terms.mode == "one round":
                bottom: nn.Module = frozen_projection(
                    features[agreement.train], self._terms.cut_width
                )
                everything = torch.arange(len(agreement.ids))
                self._send_forward(session, Kind.FROZEN, bottom, features, everything)
            else:
                bottom = self._make_bottom(features.shape[1])
                self._train(session, bottom, features, agreement)
                self._send_forward(session, Kind.QUERY, bottom, features, agreement.test)
            session.send_fields(Kind.BYE)
            session.receive_fields(Kind.BYE)
        return BottomHalf(bottom, encoder, agreement, features)

    def _train(
        self, session: Session, bottom: nn.Module, features: Tensor, agreement: Agreement
    ) -> None:
        """The loop: activation over, gradient back, update."""
        terms = self._terms
        observers = self._observers(agreement, features) if self._observers else ()
        optimizer = self._make_optimizer(list(bottom.parameters()))
        schedule = BatchSchedule(
            len(agreement.train), terms.batch_size, terms.epochs, seed=terms.seed
        )
        for step, _, positions in schedule:
            activation = bottom(features[agreement.train[positions]])
            self._check_width(activation)
            session.send_tensor(Kind.ACTIVATION, activation, step=step)
            shape = Shape(*activation.shape)
            gradient = session.receive_tensor(Kind.GRADIENT, shape, step=step)
            for observer in observers:
                observer(step, bottom)
            optimizer.zero_grad()
            activation.backward(gradient)
            optimizer.step()

    def _check_width(self, activation: Tensor) -> None:
        """Refuse a bottom whose output is not the cut that was agreed on."""
        if activation.ndim != 2 or activation.shape[1] != self._terms.cut_width:
            raise ConfigurationError(
                f"non-label party: the bottom's output has shape {tuple(activation.shape)}, but "
                f"cut_width is {self._terms.cut_width}. Change the one or the other."
            )

    def _send_forward(
        self, session: Session, kind: Kind, bottom: nn.Module, features: Tensor, records: Tensor
    ) -> None:
        """Send the activations of these records in batches."""
        with torch.no_grad():
            for index, rows in enumerate(records.split(QUERY_ROWS)):
                session.send_tensor(kind, bottom(features[rows]), step=index)
