"""What an attack is: a plain function of what the non-label party saw and knows."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from cutlayer import check
from cutlayer.transcript.release import Release

FROM_RELEASE = ("gradient", "activation")
"""Parameters that an attack may take from the messages of one step."""

SIDE_KNOWLEDGE = ("hint",)
"""Parameters that an attack may take beyond the messages; a report names them."""


@dataclass(frozen=True)
class SideKnowledge:
    """What the attacker knows beyond the messages."""

    hint: Tensor | None = None
    """Gradient of one example known to be positive, ``(width,)``, at the layer of the attack."""


@dataclass(frozen=True)
class Attack:
    """An attack function; the names of its parameters declare all that it uses.

    Raises:
        ValueError: a parameter is none of :data:`FROM_RELEASE` and :data:`SIDE_KNOWLEDGE`, so
            the attack would see something that the non-label party does not, a label say.
    """

    function: Callable[..., Tensor]
    """Returns a score for each example, ``(examples,)``; higher means "more likely positive"."""
    oriented: bool = True
    """False for an attack that separates the classes but may turn round from batch to batch,
    since the class on top depends on the batch's counts, variances or skewness. An average over
    visits aligns its scores first."""

    def __post_init__(self) -> None:
        for name in self._parameters:
            if name not in FROM_RELEASE + SIDE_KNOWLEDGE:
                raise ValueError(
                    f"An attack may use {', '.join(FROM_RELEASE + SIDE_KNOWLEDGE)}, "
                    f"got a parameter {name!r} of {self.function.__name__}."
                )

    @property
    def side_knowledge(self) -> tuple[str, ...]:
        """What the attacker must know beyond the messages; empty for most attacks."""
        return tuple(name for name in self._parameters if name in SIDE_KNOWLEDGE)

    def score(self, release: Release, knowledge: SideKnowledge) -> Tensor:
        """Attack one release.

        Returns:
            Scores, float, shape ``(examples,)``; higher means "more likely positive".

        Raises:
            ValueError: side knowledge that the attack needs is missing, or the function refuses.
        """
        arguments: dict[str, Tensor] = {}
        for name in self._parameters:
            value = getattr(release if name in FROM_RELEASE else knowledge, name)
            if value is None:
                raise ValueError(f"{self.function.__name__} needs a {name}, got none.")
            arguments[name] = value
        scores = self.function(**arguments)
        check.shape("scores", scores, (release.gradient.shape[0],))
        return scores

    @property
    def _parameters(self) -> tuple[str, ...]:
        """Names of the function's parameters."""
        return tuple(inspect.signature(self.function).parameters)
