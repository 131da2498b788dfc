"""The label party's side of a run: what it starts from, and what it has afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from cutlayer.parties.agreement import Agreement
from cutlayer.parties.canaries import Canaries
from cutlayer.parties.evaluation import Evaluation, evaluate
from cutlayer.parties.inputs import Inputs, InputShape
from cutlayer.parties.observers import ReleaseObserver
from cutlayer.parties.record_marks import RecordMarks

MakeTop = Callable[[str, int, InputShape], nn.Module]
"""Builds a top half from its name, the cut width, and the shape of the label party's own features.
It maps an activation ``(examples, cut_width)`` and own features ``(examples, ...)`` to logits
``(examples,)``."""
MakeObservers = Callable[[Agreement, Canaries], Sequence[ReleaseObserver]]


@dataclass(frozen=True)
class TopHalf:
    """What the label party has after a run.

    What is read off true labels is computed when somebody asks for it: until the peer has left,
    nobody needs it, and nothing may depend on it.
    """

    halves: dict[str, nn.Module]
    """The trained tops by name."""
    inputs: Inputs
    """Its records as numbers, and the encoder that made them."""
    agreement: Agreement
    held_out_logit: Tensor
    """Predicted log-odds of the validation and test records, in the order of
    ``agreement.held_out``."""
    labels: Tensor
    """True labels by record number, 0 or 1."""
    sent: "Sent"
    """What was sent for the first time since the party was started."""
    step: int = 0
    """Steps of the loop that the tops have learnt from, over all starts; 0 where there is none."""
    crossed: str = ""
    """For mode "one round": what came of the peer's features, as a sentence."""

    @cached_property
    def validation(self) -> Evaluation | None:
        """Quality on the validation records; ``None`` where there are none."""
        rows = self.agreement.validation
        if not len(rows):
            return None
        logit, share = self.held_out_logit[: len(rows)], self.positive_share
        return evaluate(logit, self.labels[rows], "validation", base_share=share)

    @cached_property
    def test(self) -> Evaluation:
        """Quality on the test records."""
        begin, rows = len(self.agreement.validation), self.agreement.test
        return evaluate(
            self.held_out_logit[begin:], self.labels[rows], "test", base_share=self.positive_share
        )

    @property
    def positive_share(self) -> float:
        """Share of positives among the training records, by their true labels."""
        return float(self.labels[self.agreement.train].double().mean())


@dataclass
class Sent:
    """Gradient messages that were sent for the first time; copies after a crash are not counted."""

    begin: int
    """Steps that had been answered at earlier starts."""
    releases: int = 0
    rows: int = 0
    """Gradient rows in them, each of them perturbed."""

    def add(self, rows: int) -> None:
        """Count one message."""
        self.releases += 1
        self.rows += rows


@dataclass(frozen=True)
class Prepared:
    """The label party's records once both parties agree on them."""

    agreement: Agreement
    inputs: Inputs
    canaries: Canaries
    labels: Tensor
    """True labels by record number, for evaluation."""
    marks: RecordMarks

    @property
    def training_labels(self) -> Tensor:
        """Labels that are trained on, by record number: true ones, and the coins of canaries."""
        return self.canaries.training_labels
