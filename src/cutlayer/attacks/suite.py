"""The tables of attacks: on one release, on a whole training, and on summed gradients."""

from functools import partial
from typing import Literal

from cutlayer.attacks.base import Attack
from cutlayer.attacks.batch_inversion import batch_inversion
from cutlayer.attacks.class_centre import class_mean_attack, class_median_attack
from cutlayer.attacks.cosine_attack import cosine_attack
from cutlayer.attacks.direct_sign import direct_sign
from cutlayer.attacks.few_shot_probe import activation_probe, gradient_probe
from cutlayer.attacks.first_component import first_component, hinted_component
from cutlayer.attacks.gradient_matching import gradient_matching
from cutlayer.attacks.hint_distance import hint_distance
from cutlayer.attacks.hint_inner_product import hint_inner_product
from cutlayer.attacks.history import HistoryAttack
from cutlayer.attacks.k_means import k_means_attack, k_means_from_hints
from cutlayer.attacks.learned_adversary import learned_adversary
from cutlayer.attacks.learned_history import LearnedHistory
from cutlayer.attacks.likelihood_ratio import likelihood_ratio
from cutlayer.attacks.majority_count import majority_count_attack
from cutlayer.attacks.max_norm_line import MaxNormLine
from cutlayer.attacks.model_completion import model_completion
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.pooled_release import PooledRelease
from cutlayer.attacks.received_cosine import received_cosine
from cutlayer.attacks.score_histories import AveragedAttack, SummedAttack
from cutlayer.attacks.similarity_attack import activation_similarity, gradient_similarity
from cutlayer.attacks.spectral_attack import activation_spectrum, gradient_spectrum
from cutlayer.attacks.spectral_clustering import spectral_clustering
from cutlayer.attacks.steady_line import SteadyLine
from cutlayer.attacks.tail_energy import tail_energy
from cutlayer.attacks.visit_differences import VisitDifferences
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
        "likelihood_ratio": Attack(
            likelihood_ratio,
            family="likelihood",
            published="Neyman and Pearson (1933), under the model of Li et al. (2022)",
        ),
        "learned_adversary": Attack(
            learned_adversary,
            family="learned",
            published="supervised upper reference on gradients",
            cost="expensive",
        ),
        "gradient_matching": Attack(
            gradient_matching,
            family="inversion",
            published="Kariyappa and Qureshi (2021): ExPLoit, gradient inversion attack",
            cost="expensive",
        ),
        "model_completion": Attack(
            model_completion,
            family="completion",
            published=f"{_FU}: passive model completion (VFLAIR PMC)",
            cost="expensive",
        ),
    },
)
"""Every known attack on one release by the name that commands and reports use."""


def average_of(name: str) -> HistoryAttack:
    """The average over visits of an attack on one release.

    Raises:
        UnknownNameError: no attack of this name.
    """
    attack = ATTACKS[name]
    return HistoryAttack(
        partial(AveragedAttack, attack),
        during=attack.side_knowledge,
        family=attack.family,
        published=f"{attack.published}; averaged over visits",
        cost=attack.cost,
        reads=attack.reads,
        average_of=name,
    )


def _pooled(name: str, gradient: Literal["mean", "last"], after: tuple[str, ...]) -> HistoryAttack:
    """An attack on one release, run on the release that all visits make together."""
    attack = ATTACKS[name]
    return HistoryAttack(
        partial(PooledRelease, attack, gradient=gradient),
        after=after,
        family=attack.family,
        published=f"{attack.published}; on all visits pooled",
        cost=attack.cost,
        reads=attack.reads,
    )


_KNOWN = ("known_labels",)

HISTORY_ATTACKS = Registry(
    "history attack",
    {
        **{
            f"{name}_average": average_of(name)
            for name, attack in ATTACKS.items()
            if attack.cost == "cheap" and name != "likelihood_ratio"
        },
        "likelihood_ratio_sum": HistoryAttack(
            partial(SummedAttack, ATTACKS["likelihood_ratio"]),
            during=("class_model",),
            family="likelihood",
            published="Neyman and Pearson (1933), over all releases",
        ),
        "steady_line": HistoryAttack(
            SteadyLine,
            family="spectral",
            published="cutlayer: first component, its line followed from step to step",
        ),
        "visit_differences": HistoryAttack(
            VisitDifferences,
            family="spectral",
            published="cutlayer: differences between visits, against memoised noise",
        ),
        "max_norm_line": HistoryAttack(
            MaxNormLine,
            family="spectral",
            published="cutlayer: most likely place on the line, against max_norm",
        ),
        "mean_gradient_spectrum": _pooled("gradient_spectrum", "mean", ()),
        "mean_gradient_k_means": _pooled("k_means", "mean", ()),
        "mean_gradient_class_mean": _pooled("class_mean", "mean", _KNOWN),
        "mean_gradient_probe": _pooled("gradient_probe", "mean", _KNOWN),
        "last_activation_spectrum": _pooled("activation_spectrum", "last", ()),
        "last_activation_probe": _pooled("activation_probe", "last", _KNOWN),
        "last_model_completion": _pooled("model_completion", "last", _KNOWN),
        "last_gradient_matching": _pooled("gradient_matching", "last", ("prior",)),
        "learned_history": HistoryAttack(
            LearnedHistory,
            after=_KNOWN,
            family="learned",
            published="supervised upper reference on whole histories",
            cost="expensive",
        ),
    },
)
"""Every known attack on a whole training, by name."""

SUMMED_ATTACKS = Registry(
    "attack on summed gradients",
    {
        "batch_inversion": Attack(
            batch_inversion,
            family="inversion",
            published="Zou et al. (2021): batch label inference, gradient inversion (VFLAIR BLI)",
        ),
    },
)
"""Every known attack of a party that sees parameter gradients and no row, by name."""
