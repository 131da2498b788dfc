"""What an attack is: a plain function of what the non-label party saw and knows."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from cutlayer import check
from cutlayer.attacks.class_model import ClassModel
from cutlayer.attacks.summed_release import SummedRelease
from cutlayer.transcript.release import Release

FROM_RELEASE = ("gradient", "activation")
"""Parameters that an attack may take from the messages of one step."""

FROM_SUMMED_RELEASE = ("layer_input", "weight_gradient")
"""Parameters that an attack may take where only summed parameter gradients are seen."""

SIDE_KNOWLEDGE: Mapping[str, str] = {
    "hint": "one positive of the batch and its gradient before the protection",
    "hint_gradients": "the gradients, as received, of a few records",
    "hint_activations": "the activations of a few records",
    "hint_labels": "the labels of these records, of both classes",
    "prior": "the share of positives",
    "known_labels": "the labels of half of the records",
    "class_model": "mean and variances of each class's received gradients, from half of the labels",
}
"""Parameters that an attack may take beyond the messages, with the words of a report."""

CHANCE = ("seed",)
"""Parameters that fix an attack's own random choices."""

WITHHELD = -1
"""Stands in ``known_labels`` for a label that the attacker does not know."""

Cost = Literal["cheap", "expensive"]
"""``cheap``: milliseconds for a batch of 512 rows, so that a running training can afford it."""


@dataclass(frozen=True, eq=False)
class SideKnowledge:
    """What the attacker knows beyond the messages; ``None`` is "does not know"."""

    hint: Tensor | None = None
    """Gradient of one example known to be positive, ``(width,)``, at the layer of the attack."""
    hint_gradients: Tensor | None = None
    """Gradients of known examples, as received, ``(hints, width)``; their rows are left out of
    the AUC."""
    hint_activations: Tensor | None = None
    """Activations of the same examples, ``(hints, width)``."""
    hint_labels: Tensor | None = None
    """Their labels, 0 or 1, ``(hints,)``; both classes occur."""
    prior: float | None = None
    """Share of positives, in (0, 1)."""
    known_labels: Tensor | None = None
    """0, 1, or :data:`WITHHELD`, ``(examples,)``: half of the labels, for attacks that learn from
    them and are judged on the other half."""
    class_model: ClassModel | None = None
    """Distribution of the received gradients of each class. From other rows than those whose scores
    count: from the same ones, it tells their labels in pure noise."""


@dataclass(frozen=True)
class Attack:
    """An attack function; the names of its parameters declare all that it uses.

    Raises:
        ValueError: a parameter is none of :data:`FROM_RELEASE` (or, for all of them,
            :data:`FROM_SUMMED_RELEASE`), :data:`SIDE_KNOWLEDGE` and :data:`CHANCE`, so the
            attack would see something that the non-label party does not, a label say.
    """

    function: Callable[..., Tensor]
    """Returns a score for each example, ``(examples,)``; higher means "more likely positive"."""
    oriented: bool = True
    """False for an attack that separates the classes but may turn round from batch to batch,
    since the class on top depends on the batch's counts, variances or skewness. An average over
    visits aligns its scores first."""
    family: str = "own"
    """What it goes by: ``norm``, ``direction``, ``spectral``, ``clustering`` and so on."""
    published: str = ""
    """Where it was published and under which name, for a report; empty for an attack of yours."""
    cost: Cost = "cheap"

    def __post_init__(self) -> None:
        allowed = (*self._messages, *SIDE_KNOWLEDGE, *CHANCE)
        for name in self._parameters:
            if name not in allowed:
                raise ValueError(
                    f"An attack may use {', '.join(allowed)}, "
                    f"got a parameter {name!r} of {self.function.__name__}."
                )

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Which messages it reads."""
        return tuple(name for name in self._parameters if name in self._messages)

    @cached_property
    def side_knowledge(self) -> tuple[str, ...]:
        """What the attacker must know beyond the messages; empty for some attacks."""
        return tuple(name for name in self._parameters if name in SIDE_KNOWLEDGE)

    @property
    def needs(self) -> str:
        """The same in words, for a report."""
        return needs_in_words(self.side_knowledge)

    @property
    def chance(self) -> bool:
        """Whether the attack makes random choices, which a seed fixes."""
        return any(name in CHANCE for name in self._parameters)

    def missing(self, knowledge: SideKnowledge) -> tuple[str, ...]:
        """What the attack needs and this knowledge lacks; empty where it can run."""
        return tuple(name for name in self.side_knowledge if getattr(knowledge, name) is None)

    def score(
        self, release: Release | SummedRelease, knowledge: SideKnowledge, *, seed: int = 0
    ) -> Tensor:
        """Attack one release.

        Args:
            release: what was seen in one step.
            knowledge: what else the attacker knows.
            seed: fixes the random choices of an attack that makes some.

        Returns:
            Scores, float, shape ``(examples,)``; higher means "more likely positive".

        Raises:
            ValueError: side knowledge that the attack needs is missing, or the function refuses.
        """
        missing = self.missing(knowledge)
        if missing:
            raise ValueError(f"{self.function.__name__} needs a {missing[0]}, got none.")
        arguments: dict[str, Any] = {}
        for name in self._parameters:
            if name in CHANCE:
                arguments[name] = seed
            else:
                arguments[name] = getattr(release if name in self.reads else knowledge, name)
        scores = self.function(**arguments)
        check.shape("scores", scores, (release.examples,))
        return scores

    @cached_property  # an audit asks some hundred thousand times
    def _parameters(self) -> tuple[str, ...]:
        """Names of the function's parameters."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def _messages(self) -> tuple[str, ...]:
        """The kind of messages that it reads: rows, or their sum."""
        summed = any(name in FROM_SUMMED_RELEASE for name in self._parameters)
        return FROM_SUMMED_RELEASE if summed else FROM_RELEASE


def needs_in_words(side_knowledge: Collection[str]) -> str:
    """Name side knowledge for a reader.

    >>> needs_in_words(["hint_gradients", "hint_labels"])
    'the gradients, as received, of a few records; the labels of these records, of both classes'
    >>> needs_in_words([])
    'the messages alone'
    """
    return "; ".join(SIDE_KNOWLEDGE[name] for name in side_knowledge) or "the messages alone"


def runnable(
    attacks: Mapping[str, Attack], known: Collection[str] = (), cost: Cost = "cheap"
) -> dict[str, Attack]:
    """The attacks that somebody with this knowledge and this much time can run.

    Args:
        attacks: by name.
        known: which side knowledge there is, by the names of :data:`SIDE_KNOWLEDGE`.
        cost: ``cheap`` leaves the expensive ones out.

    Returns:
        In the order of ``attacks``.
    """
    return {
        name: attack
        for name, attack in attacks.items()
        if set(attack.side_knowledge) <= set(known) and cost in (attack.cost, "expensive")
    }
