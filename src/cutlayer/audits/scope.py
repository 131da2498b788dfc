"""The scope of an audit: how much the attackers know, how often they try, and when they stop."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cutlayer import check
from cutlayer.attacks import ATTACKS, HISTORY_ATTACKS, Attack, HistoryAttack

Layer = Literal["cut", "first"]
"""``cut``: the gradient as received. ``first``: carried back through the non-label party's half
to the output of its first trainable layer."""

Stage = Literal["training", "inference"]
"""``training``: messages of the training. ``inference``: activations that are sent for records to
predict, with the trained halves."""

AnyAttack = Attack | HistoryAttack
"""On one release, or on a whole training."""

FEW_RECORDS = ("hint_gradients", "hint_activations", "hint_labels")
"""Side knowledge that is a few known records of each class."""

_LEARNED = "learned"
"""Family of the attacks that learn from half of all labels."""


@dataclass(frozen=True)
class Attacker:
    """One attack with one amount of side knowledge and one choice of what is known."""

    name: str
    attack: AnyAttack
    hints: int
    """Known records of each class; for attacks with a clean hint 1, the positive of the batch."""
    seed: int
    """Fixes which records are known, and the attack's own random choices."""

    @property
    def needs(self) -> str:
        """What it must know beyond the messages, in words."""
        if not self.uses_few_records:
            return self.attack.needs
        records = "record" if self.hints == 1 else "records"
        return f"the labels of {self.hints} {records} of each class, and what was sent for them"

    @property
    def uses_few_records(self) -> bool:
        """Whether it is given a few known records of each class."""
        known = self.attack.side_knowledge
        by_record = isinstance(self.attack, HistoryAttack) and "known_labels" in known
        return any(name in FEW_RECORDS for name in known) or (by_record and not self.uses_half)

    @property
    def uses_half(self) -> bool:
        """Whether it learns from half of all labels and is judged on the other half."""
        if "known_labels" not in self.attack.side_knowledge:
            return False
        return isinstance(self.attack, Attack) or self.attack.family == _LEARNED

    @property
    def uses_class_model(self) -> bool:
        """Whether it is given the distribution of each class, and judged on other records."""
        return "class_model" in self.attack.side_knowledge


def all_attacks() -> dict[str, AnyAttack]:
    """Every attack on one release, and every one on a whole training that is no mere average.

    The average over visits of an attack on one release is measured with that attack.
    """
    histories = {n: a for n, a in HISTORY_ATTACKS.items() if a.average_of is None}
    return {**ATTACKS, **histories}


def attack_named(name: str) -> AnyAttack:
    """The attack of this name, from either table.

    Raises:
        UnknownNameError: there is none.
    """
    return HISTORY_ATTACKS[name] if name in HISTORY_ATTACKS else ATTACKS[name]


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
    histories: bool = False
    """Whether the attacks on whole trainings run."""
    expensive: bool = False
    """Whether attacks run that train a model; those on one release look at a few releases only."""
    expensive_every: int = 1
    """They look at every so many-th release."""

    def __post_init__(self) -> None:
        check.at_least("number of hint counts", len(self.hints), 1)
        for count in self.hints:
            check.at_least("hints", count, 0)
        for epochs in self.after:
            check.at_least("after", epochs, 1)
        check.at_least("seeds", self.seeds, 1)
        check.at_least("expensive_every", self.expensive_every, 1)

    def attackers(self, attacks: Mapping[str, AnyAttack], *, named: bool = False) -> list[Attacker]:
        """Everybody who is to try.

        Args:
            attacks: by name.
            named: they were asked for by name, so none is left out for its cost or kind.
        """
        return [
            Attacker(name, attack, hints, seed)
            for name, attack in attacks.items()
            if named or self._wants(attack)
            for hints, seed in self._choices(attack, few=named or self.few_records)
        ]

    def _wants(self, attack: AnyAttack) -> bool:
        """Whether an attack is of a kind and cost that is in scope."""
        if isinstance(attack, HistoryAttack) and not self.histories:
            return False
        return self.expensive or attack.cost == "cheap"

    def _choices(self, attack: AnyAttack, *, few: bool) -> Iterator[tuple[int, int]]:
        """Hint counts and seeds with which an attack is run; none where it is out of scope."""
        somebody = Attacker("", attack, 1, 0)
        one_release = isinstance(attack, Attack)
        # A model for each release, each count and each seed would take hours.
        seeds = range(1 if attack.cost == "expensive" and one_release else self.seeds)
        if somebody.uses_few_records:
            if few:
                yield from ((hints, s) for hints in self.hints if hints for s in seeds)
        elif "hint" in attack.side_knowledge:
            if any(self.hints):
                yield 1, 0
        elif somebody.uses_half:
            if few:
                yield from ((0, seed) for seed in seeds)
        elif not somebody.uses_class_model or few:
            chance = isinstance(attack, Attack) and attack.chance
            yield from ((0, seed) for seed in (seeds if chance else (0,)))


FULL_SCOPE = AuditScope(
    hints=(0, 1, 5, 20),
    seeds=3,
    after=(1, 2, 5, 10),
    few_records=True,
    histories=True,
    expensive=True,
)
"""What ``cutlayer audit`` tries where nobody says otherwise."""
