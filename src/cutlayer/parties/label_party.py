"""The label party: holds the labels and the top half; decides what leaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cutlayer.data import BatchSchedule, Encoder, PartyTable
from cutlayer.errors import DataError
from cutlayer.models import require_row_independence
from cutlayer.parties.canaries import Canaries, plant_canaries
from cutlayer.parties.evaluation import Evaluation, evaluate
from cutlayer.parties.handshake import Agreement, agree_on, shake_hands
from cutlayer.parties.heads import GradientHead, Head, MakeOptimizer, head_for
from cutlayer.parties.non_label_party import QUERY_ROWS
from cutlayer.parties.observers import ProgressObserver, ReleaseObserver
from cutlayer.parties.terms import Terms
from cutlayer.protections.base import Protection, require_finite
from cutlayer.protections.no_noise import NoNoise
from cutlayer.protocol import Deadlines, Kind, Role, Session, Shape, Transport
from cutlayer.rng import NoiseSource
from cutlayer.transcript.release import Release

MakeTop = Callable[[str, int, int], nn.Module]
"""Builds a top from its name, the cut width, and the number of the label party's own columns."""
MakeObservers = Callable[[Agreement, Canaries], Sequence[ReleaseObserver]]


@dataclass(frozen=True)
class TopHalf:
    """What the label party has after a run."""

    halves: dict[str, nn.Module]
    """The trained tops by name."""
    encoder: Encoder
    agreement: Agreement
    test_logit: Tensor
    """Predicted log-odds of the test records, in the order of ``agreement.test``."""
    evaluation: Evaluation
    releases: int
    """Gradient messages that were sent."""
    rows: int
    """Gradient rows that were sent, each of them perturbed."""


@dataclass(frozen=True)
class _Records:
    """The label party's records once both parties agree on them."""

    agreement: Agreement
    encoder: Encoder
    features: Tensor
    canaries: Canaries
    labels: Tensor


class LabelParty:
    """One run of the label party.

    Args:
        table: its records, with labels.
        terms: of the run; must equal the non-label party's.
        protection: what happens to each gradient; for mode "one round" none is used.
        make_top: builds a top half.
        make_optimizer: builds an optimizer for a top's parameters.
        noise: where the protection's randomness comes from.
        canaries: how many training records get a coin for a label, for an audit.
        observers: look at each release, from inside this party.
        progress: are told how far the training is.
        deadlines: how long to wait for the peer.

    Raises:
        DataError: the table has no labels.
    """

    def __init__(
        self,
        table: PartyTable,
        terms: Terms,
        protection: Protection,
        make_top: MakeTop,
        make_optimizer: MakeOptimizer,
        *,
        noise: NoiseSource,
        canaries: int = 0,
        observers: MakeObservers | None = None,
        progress: Sequence[ProgressObserver] = (),
        deadlines: Deadlines | None = None,
    ) -> None:
        if table.labels is None:
            raise DataError("label party: the table has no labels. Name its label column.")
        self._table, self._terms, self._protection = table, terms, protection
        self._make_top, self._make_optimizer = make_top, make_optimizer
        self._noise, self._canaries = noise, canaries
        self._observers, self._progress = observers, progress
        self._deadlines = deadlines

    def run(self, transport: Transport) -> TopHalf:
        """Train with the non-label party at the other end.

        Raises:
            TermsMismatchError, DataError: the parties do not fit together.
            ProtectionError: the protection cannot be applied; the run ends before sending.
            ProtocolError: the peer breaks the protocol.
            ConnectionLostError: the peer is gone, silent, or ended the run.
        """
        session = Session(Role.LABEL, transport, run=self._terms.run, deadlines=self._deadlines)
        with session:
            records = self._prepare(shake_hands(session, self._terms, self._table))
            if self._terms.mode == "one round":
                activation = self._receive_forward(
                    session, Kind.FROZEN, torch.arange(len(records.labels))
                )
                head = self._fit_alone(records, activation)
                logit = head.predict(activation[records.agreement.test], self._test(records))
                releases = rows = 0
            else:
                head = self._head(records)
                releases, rows = self._train(session, head, records)
                activation = self._receive_forward(session, Kind.QUERY, records.agreement.test)
                logit = head.predict(activation, self._test(records))
            session.receive_fields(Kind.BYE)
            session.send_fields(Kind.BYE)
        return self._result(head, records, logit, releases, rows)

    def run_alone(self) -> TopHalf:
        """Train on the own features only: the baseline that needs no peer and sends nothing."""
        records = self._prepare(agree_on(self._table.ids, self._terms))
        nothing = torch.zeros(len(records.labels), 0)
        head = self._fit_alone(records, nothing)
        logit = head.predict(nothing[records.agreement.test], self._test(records))
        return self._result(head, records, logit, 0, 0)

    def _prepare(self, agreement: Agreement) -> _Records:
        """Order and encode the own records, and plant the canaries."""
        table = self._table.ordered_by(agreement.ids)
        if table.labels is None:
            raise DataError("label party: the labels were lost while matching records.")
        encoder = Encoder.fit(table.ordered_by([agreement.ids[i] for i in agreement.train]))
        planted = plant_canaries(table.labels, agreement.train, self._canaries, self._noise)
        features = encoder.encode(table)
        return _Records(agreement, encoder, features, planted, table.labels)

    def _train(self, session: Session, head: Head, records: _Records) -> tuple[int, int]:
        """The loop: activation in, perturbed gradient out, update; returns messages and rows."""
        terms, train, labels = self._terms, records.agreement.train, records.canaries.labels
        observers = self._observers(records.agreement, records.canaries) if self._observers else ()
        schedule = self._schedule(records)
        sent = 0
        for step, epoch, positions in schedule:
            rows = train[positions]
            shape = Shape(len(rows), terms.cut_width)
            activation = session.receive_tensor(Kind.ACTIVATION, shape, step=step)
            answer = head.answer(
                activation, records.features[rows], labels[rows], audited=bool(observers)
            )
            require_finite(answer.gradient, f"the gradient of step {step}")
            session.send_tensor(Kind.GRADIENT, answer.gradient, step=step)
            head.update()
            sent += len(rows)
            if answer.clean_gradient is not None:
                release = Release(step, epoch, rows, activation, answer.gradient)
                for observer in observers:
                    observer.on_release(release, labels[rows], answer.clean_gradient)
            self._tell(step + 1, len(schedule), len(rows))
        return len(schedule), sent

    def _fit_alone(self, records: _Records, activation: Tensor) -> Head:
        """Train a clean top on activations that do not change; nothing is sent."""
        head = GradientHead(
            self._top(records, "top", activation.shape[1]),
            NoNoise(),
            self._make_optimizer,
            self._noise,
        )
        schedule = self._schedule(records)
        for step, _, positions in schedule:
            rows = records.agreement.train[positions]
            head.fit(activation[rows], records.features[rows], records.canaries.labels[rows])
            self._tell(step + 1, len(schedule), len(rows))
        return head

    def _head(self, records: _Records) -> Head:
        """The head of the run's protection."""

        def make_top(name: str) -> nn.Module:
            return self._top(records, name, self._terms.cut_width)

        return head_for(self._protection, make_top, self._make_optimizer, self._noise)

    def _top(self, records: _Records, name: str, cut_width: int) -> nn.Module:
        """A top that couples no rows."""
        top = self._make_top(name, cut_width, records.features.shape[1])
        require_row_independence(top, "label party")
        return top

    def _receive_forward(self, session: Session, kind: Kind, records: Tensor) -> Tensor:
        """Receive the activations of these records in batches."""
        return torch.cat(
            [
                session.receive_tensor(kind, Shape(len(rows), self._terms.cut_width), step=index)
                for index, rows in enumerate(records.split(QUERY_ROWS))
            ]
        )

    def _schedule(self, records: _Records) -> BatchSchedule:
        """The order of the batches."""
        count, terms = len(records.agreement.train), self._terms
        return BatchSchedule(count, terms.batch_size, terms.epochs, seed=terms.seed)

    def _test(self, records: _Records) -> Tensor:
        """Own features of the test records."""
        return records.features[records.agreement.test]

    def _result(
        self, head: Head, records: _Records, logit: Tensor, releases: int, rows: int
    ) -> TopHalf:
        """Evaluate on true labels and gather what the run leaves."""
        evaluation = evaluate(logit, records.labels[records.agreement.test])
        agreement, encoder = records.agreement, records.encoder
        return TopHalf(head.halves, encoder, agreement, logit, evaluation, releases, rows)

    def _tell(self, step: int, steps: int, rows: int) -> None:
        """Pass the progress on."""
        for observer in self._progress:
            observer.on_progress(step, steps, rows)
