"""One step of the label party: an activation in, a perturbed gradient out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from cutlayer.data import MicroBatch
from cutlayer.parties.cadence import departure
from cutlayer.parties.compute import Compute
from cutlayer.parties.observers import ReleaseKeeper, ReleaseObserver
from cutlayer.parties.release_journal import ReleaseJournal
from cutlayer.parties.terms import Terms
from cutlayer.parties.top_half import Prepared, Sent
from cutlayer.parties.top_trainer import StepInput, StepOutput, TopTrainer
from cutlayer.protections.base import require_finite
from cutlayer.protocol import Kind, Session, Shape
from cutlayer.rng import tensor_digest
from cutlayer.transcript.release import Release


@dataclass(frozen=True)
class ReleaseRecord:
    """Where a reply is put on record before it leaves, and who looks at it."""

    journal: ReleaseJournal | None
    """``None`` where nothing is kept, so that the run cannot be resumed."""
    observers: Sequence[ReleaseObserver]
    sent: Sent
    """Counts what has left."""

    def known_request(self, step: int, activation: Tensor) -> bytes:
        """The digest of a request; refuses another one for a step that was answered before.

        Raises:
            ProtocolError: the step was answered before, to another activation.
        """
        if self.journal is None:
            return b""
        request = tensor_digest(activation)
        self.journal.require_known_request(step, request)
        return request

    def settle(self, step: int, request: bytes, reply: Tensor) -> bool:
        """Put a reply on record, durably; returns whether it is the first for its step.

        Raises:
            ConfigurationError: the step was answered before with other bytes.
            StorageError: the entry cannot be written; nothing may be sent.
        """
        new = self.journal is None or self.journal.settle(step, request, tensor_digest(reply))
        if new:  # it counts once it is on record, for nobody knows whether a lost message arrived
            self.sent.add(len(reply))
        return new

    def show(self, release: Release, labels: Tensor, clean: Tensor, *, new: bool) -> None:
        """Let observers look at a release, and keepers at a copy of one."""
        for observer in self.observers if new else ():
            observer.on_release(release, labels, clean)
        for keeper in () if new else keepers_among(self.observers):
            keeper.on_copy(release, labels, clean)


class LabelStep:
    """Answers one message after the other.

    Args:
        session: with the non-label party.
        trainer: computes the gradient, already perturbed.
        prepared: records, labels and features of this party.
        record: where a reply is put on record before it leaves.
        terms: of the run.
        compute: device and precision.
        cadence: seconds; a reply leaves at a multiple of them. 0 sends it at once.
    """

    def __init__(
        self,
        session: Session,
        trainer: TopTrainer,
        prepared: Prepared,
        record: ReleaseRecord,
        *,
        terms: Terms,
        compute: Compute,
        cadence: float,
    ) -> None:
        self._session, self._trainer, self._prepared = session, trainer, prepared
        self._record, self._terms = record, terms
        self._compute, self._cadence = compute, cadence

    def run(self, part: MicroBatch) -> None:
        """Receive an activation, answer it, put the answer on record, show it, and send it.

        Raises:
            ProtocolError: the peer breaks the protocol, or asks an answered step anew.
            ProtectionError: the protection cannot be applied; nothing was sent.
            ConfigurationError: the step was answered before with other bytes.
            StorageError: the reply cannot be put on record; nothing was sent.
            ConnectionLostError: the peer is gone or silent.
        """
        step, rows = part.step, self._prepared.agreement.train[part.positions]
        shape = Shape(len(rows), self._terms.cut_width, self._terms.wire_dtype)
        activation = self._session.receive_tensor(Kind.ACTIVATION, shape, step=step).float()
        taken_up = time.monotonic()
        request = self._record.known_request(step, activation)
        labels = self._prepared.training_labels[rows]
        output = self._answer(part, rows, activation, labels)
        reply = output.gradient.to(self._terms.wire_dtype)
        require_finite(reply, f"the gradient of step {step}")
        new = self._record.settle(step, request, reply)
        if output.clean_gradient is not None:
            release = Release(step, part.epoch, rows, activation, reply.float().cpu())
            self._record.show(release, labels, output.clean_gradient.cpu(), new=new)
        self._wait_for_departure(taken_up)
        self._session.send_tensor(Kind.GRADIENT, reply, step=step)

    def _answer(
        self, part: MicroBatch, rows: Tensor, activation: Tensor, labels: Tensor
    ) -> StepOutput:
        """The perturbed gradient of one message."""
        place = self._compute.place
        return self._trainer.answer(
            StepInput(
                part.step,
                part.epoch,
                self._prepared.marks.by_position[part.positions],
                place(activation),
                place(self._prepared.inputs.values[rows]),
                place(labels),
                part.share,
                audited=bool(self._record.observers),
            )
        )

    def _wait_for_departure(self, taken_up: float) -> None:
        """Let the reply leave at a time that does not depend on how long it took."""
        if self._cadence:
            now = time.monotonic()
            time.sleep(departure(taken_up, now, self._cadence) - now)


def keepers_among(observers: Sequence[ReleaseObserver]) -> list[ReleaseKeeper]:
    """The observers that write releases down."""
    return [one for one in observers if isinstance(one, ReleaseKeeper)]
