"""Attacks: what a curious non-label party can learn about the labels. One file each.

An attack is a function of the messages of one step and of the side knowledge that it declares;
labels are never among its parameters. Each returns one score an example, higher for "more likely
positive".
"""

from cutlayer.attacks.base import (
    CHANCE,
    FROM_RELEASE,
    FROM_SUMMED_RELEASE,
    SIDE_KNOWLEDGE,
    WITHHELD,
    Attack,
    SideKnowledge,
    runnable,
)
from cutlayer.attacks.batch_inversion import batch_inversion
from cutlayer.attacks.bypass import bypasses
from cutlayer.attacks.class_centre import class_mean_attack, class_median_attack
from cutlayer.attacks.class_model import ClassModel
from cutlayer.attacks.cosine_attack import cosine_attack
from cutlayer.attacks.direct_sign import direct_classes, direct_sign
from cutlayer.attacks.few_shot_probe import activation_probe, gradient_probe
from cutlayer.attacks.first_component import first_component, hinted_component
from cutlayer.attacks.gradient_matching import gradient_matching
from cutlayer.attacks.hint_distance import hint_distance
from cutlayer.attacks.hint_inner_product import hint_inner_product
from cutlayer.attacks.history import History, HistoryAttack, HistoryRun, score_history
from cutlayer.attacks.k_means import k_means_attack, k_means_classes, k_means_from_hints
from cutlayer.attacks.learned_adversary import learned_adversary
from cutlayer.attacks.likelihood_ratio import likelihood_ratio
from cutlayer.attacks.majority_count import majority_count_attack
from cutlayer.attacks.model_completion import model_completion
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.received_cosine import received_cosine
from cutlayer.attacks.similarity_attack import (
    activation_similarity,
    gradient_similarity,
    similar_classes,
)
from cutlayer.attacks.spectral_attack import activation_spectrum, gradient_spectrum
from cutlayer.attacks.spectral_clustering import spectral_clustering
from cutlayer.attacks.suite import ATTACKS, HISTORY_ATTACKS, SUMMED_ATTACKS, average_of
from cutlayer.attacks.summed_release import SummedRelease
from cutlayer.attacks.tail_energy import tail_energy
from cutlayer.attacks.visit_average import VisitAverage

__all__ = [
    "ATTACKS",
    "CHANCE",
    "FROM_RELEASE",
    "FROM_SUMMED_RELEASE",
    "HISTORY_ATTACKS",
    "SIDE_KNOWLEDGE",
    "SUMMED_ATTACKS",
    "WITHHELD",
    "Attack",
    "ClassModel",
    "History",
    "HistoryAttack",
    "HistoryRun",
    "SideKnowledge",
    "SummedRelease",
    "VisitAverage",
    "activation_probe",
    "activation_similarity",
    "activation_spectrum",
    "average_of",
    "batch_inversion",
    "bypasses",
    "class_mean_attack",
    "class_median_attack",
    "cosine_attack",
    "direct_classes",
    "direct_sign",
    "first_component",
    "gradient_matching",
    "gradient_probe",
    "gradient_similarity",
    "gradient_spectrum",
    "hint_distance",
    "hint_inner_product",
    "hinted_component",
    "k_means_attack",
    "k_means_classes",
    "k_means_from_hints",
    "learned_adversary",
    "likelihood_ratio",
    "majority_count_attack",
    "model_completion",
    "norm_attack",
    "received_cosine",
    "runnable",
    "score_history",
    "similar_classes",
    "spectral_clustering",
    "tail_energy",
]
