"""The scope of an audit: how much the attackers know, how often they try, and when they stop."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cutlayer import check
from cutlayer.attacks import Attack

FEW_RECORDS = ("hint_gradients", "hint_activations", "hint_labels")
"""Side knowledge that is a few known records of each class."""


@dataclass(frozen=True)
class Attacker:
    """One attack with one amount of side knowledge and one choice of what is known."""

    name: str
    attack: Attack
    hints: int
    """Known records of each class; for attacks with a clean hint 1, the positive of the batch."""
    seed: int
    """Fixes which records are known, and the attack's own random choices."""

    @property
    def needs(self) -> str:
        """What it must know beyond the messages, in words."""
        if self.uses_few_records:
            what = (
                "activations" if "hint_activations" in self.attack.side_knowledge else "gradients"
            )
            records = "record" if self.hints == 1 else "records"
            return f"the labels of {self.hints} {records} of each class, and their {what} as sent"
        return self.attack.needs

    @property
    def uses_few_records(self) -> bool:
        """Whether it is given the received rows of a few known records."""
        return any(name in FEW_RECORDS for name in self.attack.side_knowledge)

    @property
    def uses_half(self) -> bool:
        """Whether it learns from half of all labels and is judged on the other half."""
        return "known_labels" in self.attack.side_knowledge


@dataclass(frozen=True)
class AuditScope:
    """What to try.

    Raises:
        ValueError: a number is out of range.
    """

    hints: tuple[int, ...] = (0, 1)
    """Known records of each class; 0 stands for the attacks that need none."""
    seeds: int = 1
    """How often an attack that depends on a choice of known records, or on chance, is run."""
    after: tuple[int, ...] = (1, 5)
    """Epochs after which the averages over visits are measured, beside the last."""
    few_records: bool = False
    """Whether attacks that know the received rows of a few records, or half of the labels, run."""
    expensive: bool = False
    """Whether attacks run that take more than milliseconds a batch."""

    def __post_init__(self) -> None:
        check.at_least("number of hint counts", len(self.hints), 1)
        for count in self.hints:
            check.at_least("hints", count, 0)
        for epochs in self.after:
            check.at_least("after", epochs, 1)
        check.at_least("seeds", self.seeds, 1)

    def attackers(self, attacks: Mapping[str, Attack], *, named: bool = False) -> list[Attacker]:
        """Everybody who is to try.

        Args:
            attacks: by name.
            named: they were asked for by name, so none is left out for its cost.
        """
        return [
            Attacker(name, attack, hints, seed)
            for name, attack in attacks.items()
            if named or self.expensive or attack.cost == "cheap"
            for hints, seed in self._choices(attack)
        ]

    def _choices(self, attack: Attack) -> Iterator[tuple[int, int]]:
        """Hint counts and seeds with which an attack is run; none where it is out of scope."""
        known = set(attack.side_knowledge)
        seeds = range(self.seeds)
        if known & set(FEW_RECORDS):
            if self.few_records:
                yield from ((hints, s) for hints in self.hints if hints for s in seeds)
        elif "hint" in known:
            if any(self.hints):
                yield 1, 0
        elif "known_labels" in known:
            if self.few_records:
                yield from ((0, seed) for seed in seeds)
        elif "class_model" not in known or self.few_records:
            yield from ((0, seed) for seed in (seeds if attack.chance else (0,)))


FULL_SCOPE = AuditScope(
    hints=(0, 1, 5, 20), seeds=3, after=(1, 2, 5, 10), few_records=True, expensive=True
)
"""What ``cutlayer audit`` tries where nobody says otherwise."""
