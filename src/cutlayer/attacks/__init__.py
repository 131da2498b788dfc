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
from cutlayer.attacks.class_centre import class_mean_attack, class_median_attack
from cutlayer.attacks.class_model import ClassModel
from cutlayer.attacks.cosine_attack import cosine_attack
from cutlayer.attacks.direct_sign import direct_classes, direct_sign
from cutlayer.attacks.few_shot_probe import activation_probe, gradient_probe
from cutlayer.attacks.first_component import first_component, hinted_component
from cutlayer.attacks.hint_distance import hint_distance
from cutlayer.attacks.hint_inner_product import hint_inner_product
from cutlayer.attacks.k_means import k_means_attack, k_means_from_hints
from cutlayer.attacks.majority_count import majority_count_attack
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.received_cosine import received_cosine
from cutlayer.attacks.similarity_attack import (
    activation_similarity,
    gradient_similarity,
    similar_classes,
)
from cutlayer.attacks.spectral_attack import activation_spectrum, gradient_spectrum
from cutlayer.attacks.spectral_clustering import spectral_clustering
from cutlayer.attacks.summed_release import SummedRelease
from cutlayer.attacks.tail_energy import tail_energy
from cutlayer.attacks.visit_average import VisitAverage
from cutlayer.registry import Registry

_LI = "Li et al. (2022)"
_LIU = "Liu and Lyu (2022)"
_SUN = "Sun et al. (2022)"
_GAFM = "Han and Guan (2023)"
_FU = "Fu et al. (2022)"

ATTACKS = Registry(
    "attack",
    {
        "norm": Attack(norm_attack, family="norm", published=f"{_LI}: norm attack"),
        "cosine": Attack(
            cosine_attack, family="direction", published=f"{_LI}: direction attack, clean hint"
        ),
        "majority_count": Attack(
            majority_count_attack,
            oriented=False,
            family="direction",
            published=f"{_LI}: direction by counting",
        ),
        "tail_energy": Attack(
            tail_energy, oriented=False, family="spectral", published="cutlayer: tail energy"
        ),
        "first_component": Attack(
            first_component,
            oriented=False,
            family="spectral",
            published="cutlayer: first component",
        ),
        "hinted_component": Attack(
            hinted_component,
            family="spectral",
            published="cutlayer: first component, turned by a clean hint",
        ),
        "gradient_spectrum": Attack(
            gradient_spectrum,
            oriented=False,
            family="spectral",
            published=f"{_SUN}: spectral attack, on gradients",
        ),
        "activation_spectrum": Attack(
            activation_spectrum,
            oriented=False,
            family="spectral",
            published=f"{_SUN}: spectral attack",
        ),
        "k_means": Attack(
            k_means_attack,
            oriented=False,
            family="clustering",
            published=f"{_LIU}: clustering label inference, without labels",
        ),
        "spectral_clustering": Attack(
            spectral_clustering,
            oriented=False,
            family="clustering",
            published="SecretFlow grad_lia: spectral clustering of gradients",
        ),
        "direct_sign": Attack(
            direct_sign,
            family="direction",
            published=f"{_FU}: direct label inference (VFLAIR DLI)",
        ),
        "received_cosine": Attack(
            received_cosine, family="direction", published=f"{_LI}: direction attack, received hint"
        ),
        "hint_inner_product": Attack(
            hint_inner_product, family="direction", published=f"{_LI}, code: inner product, k hints"
        ),
        "hint_distance": Attack(
            hint_distance, family="direction", published=f"{_LI}, code: distance, k hints"
        ),
        "gradient_similarity": Attack(
            gradient_similarity, family="similarity", published=f"{_LIU}: similarity of gradients"
        ),
        "activation_similarity": Attack(
            activation_similarity,
            family="similarity",
            published=f"{_LIU}: similarity of smashed data",
        ),
        "k_means_from_hints": Attack(
            k_means_from_hints,
            family="clustering",
            published=f"{_LIU}: clustering label inference",
        ),
        "class_mean": Attack(
            class_mean_attack, family="similarity", published=f"{_GAFM}: mean attack"
        ),
        "class_median": Attack(
            class_median_attack, family="similarity", published=f"{_GAFM}: median attack"
        ),
        "gradient_probe": Attack(
            gradient_probe, family="probe", published="few-shot logistic regression on gradients"
        ),
        "activation_probe": Attack(
            activation_probe,
            family="probe",
            published="few-shot logistic regression on activations",
        ),
    },
)
"""Every known attack on one release by the name that commands and reports use."""

__all__ = [
    "ATTACKS",
    "CHANCE",
    "FROM_RELEASE",
    "FROM_SUMMED_RELEASE",
    "SIDE_KNOWLEDGE",
    "WITHHELD",
    "Attack",
    "ClassModel",
    "SideKnowledge",
    "SummedRelease",
    "VisitAverage",
    "activation_probe",
    "activation_similarity",
    "activation_spectrum",
    "class_mean_attack",
    "class_median_attack",
    "cosine_attack",
    "direct_classes",
    "direct_sign",
    "first_component",
    "gradient_probe",
    "gradient_similarity",
    "gradient_spectrum",
    "hint_distance",
    "hint_inner_product",
    "hinted_component",
    "k_means_attack",
    "k_means_from_hints",
    "majority_count_attack",
    "norm_attack",
    "received_cosine",
    "runnable",
    "similar_classes",
    "spectral_clustering",
    "tail_energy",
]
