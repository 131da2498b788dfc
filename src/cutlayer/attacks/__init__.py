"""Attacks: what a curious non-label party can learn about the labels. One file each.

An attack is a function of the messages of one step and of the side knowledge that it declares;
labels are never among its parameters. Each returns one score an example, higher for "more likely
positive".
"""

from cutlayer.attacks.base import Attack, SideKnowledge
from cutlayer.attacks.cosine_attack import cosine_attack
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.majority_count import majority_count_attack
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.tail_energy import tail_energy
from cutlayer.attacks.visit_average import VisitAverage
from cutlayer.registry import Registry

ATTACKS = Registry(
    "attack",
    {
        "norm": Attack(norm_attack),
        "cosine": Attack(cosine_attack),
        "majority_count": Attack(majority_count_attack, oriented=False),
        "tail_energy": Attack(tail_energy, oriented=False),
        "first_component": Attack(first_component, oriented=False),
    },
)
"""Every known attack by the name that commands and reports use."""

__all__ = [
    "ATTACKS",
    "Attack",
    "SideKnowledge",
    "VisitAverage",
    "cosine_attack",
    "first_component",
    "majority_count_attack",
    "norm_attack",
    "tail_energy",
]
