"""What a protection is: a setting, one declared stage, and an honest guarantee."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Self

from torch import Tensor

from cutlayer import check
from cutlayer.errors import NotFiniteError
from cutlayer.leakage.guarantee import Guarantee
from cutlayer.protections.visit_count import VisitCount
from cutlayer.rng import NoiseSource


class Stage(Enum):
    """Where in a training step a protection acts."""

    GRADIENT = "gradient"
    """On the cut gradient, between the top's backward pass and the wire."""
    RESIDUAL = "residual"
    """On d loss / d logit, between the logit and the top's backward pass: it owns the loss."""


class Protection(ABC):
    """Settings of one protection. Frozen: state that batches leave behind is kept privately.

    Use one object for one training: averages over batches, where a protection has them, belong
    to that training and to no other.
    """

    name: ClassVar[str]
    stage: ClassVar[Stage]
    removed_settings: ClassVar[Mapping[str, str]] = {}
    """Settings of earlier versions by name, and why they are gone."""
    visits: VisitCount
    """Of each record, as the drop-ins released it; a run of two parties has its journal."""

    def __new__(cls, *_: object, **settings: object) -> Self:
        """Refuse a setting that is gone with its reason, and begin to count visits."""
        for name, reason in cls.removed_settings.items():
            if name in settings:
                raise ValueError(f"{cls.name} has no setting {name} any more. {reason}")
        made = super().__new__(cls)
        vars(made)["visits"] = VisitCount()  # the dataclasses below are frozen
        return made

    @property
    @abstractmethod
    def strength(self) -> str:
        """The setting that fixes the noise, as ``s=4``; ``-`` where there is none."""

    @abstractmethod
    def guarantee(self, releases: int) -> Guarantee:
        """What is proven about one record after ``releases`` of its gradient rows were sent."""

    @property
    def simulation_only(self) -> bool:
        """Whether it may refuse a batch because of its labels, which a real peer would notice."""
        return False

    @property
    def planned_releases(self) -> int | None:
        """How often a record may be sent for the goal to hold; ``None`` where it is not planned."""
        return None

    @property
    def guarantee_depends_on_state(self) -> bool:
        """Whether :meth:`guarantee` speaks of the batches so far, as :meth:`state` keeps them."""
        return False

    def state(self) -> dict[str, Tensor]:
        """What batches have left behind, as named tensors, for a checkpoint; empty for most."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up again what :meth:`state` gave; most protections have nothing to take up.

        Raises:
            KeyError: the state is not of this protection.
        """
        for name in state:
            raise KeyError(name)


class GradientProtection(Protection):
    """A protection that perturbs the cut gradient."""

    stage = Stage.GRADIENT

    @abstractmethod
    def perturb(self, gradient: Tensor, labels: Tensor, *, noise: NoiseSource) -> Tensor:
        """Make the gradient that is sent from the one that was computed.

        Args:
            gradient: d loss / d activation of the batch's mean loss, shape ``(examples, width)``.
            labels: the batch's labels, 0 or 1, shape ``(examples,)``.
            noise: where the randomness comes from.

        Returns:
            The perturbed gradient, in the shape, type and device of ``gradient``.

        Raises:
            ValueError: a shape or a label is wrong.
            ProtectionError: the protection cannot be applied; nothing may be sent.
        """

    def prime(self, gradient: Tensor, labels: Tensor) -> None:
        """Learn from a batch that is never sent. Most protections have nothing to learn.

        ``gradient`` is that of the mean loss over all these rows, as in :meth:`perturb`.

        A label party calls this once, before the first release, with the gradients that the first
        batch would have under label 1 and under label 0, so that a protection with class
        statistics knows both classes whatever the batch holds.
        """


def check_batch(gradient: Tensor, labels: Tensor) -> None:
    """Refuse a batch that no protection may be applied to.

    Raises:
        ValueError: wrong shapes, or labels other than 0 and 1.
        NotFiniteError: NaN or infinity in the gradient.
    """
    check.matrix("gradient", gradient)
    check.binary_labels("labels", labels, examples=gradient.shape[0])
    require_finite(gradient, "the gradient before protection")


def require_finite(value: Tensor, what: str) -> None:
    """Refuse NaN and infinity, and say how many rows hold them.

    Raises:
        NotFiniteError: some row is not finite.
    """
    try:
        check.finite("values", value)
    except ValueError as error:
        raise NotFiniteError(
            f"label party: {what} is not finite ({error}) Nothing was sent. Lower the learning "
            "rate, or look for NaN in the features and activations."
        ) from error
