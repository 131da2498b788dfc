"""S7: our own attacks against each protection that states a bound, and a control without any.

One release of 4,000 rows from a top whose gradients are isotropic around a class mean, which is
where Marvell's bound holds.
"""

import pytest
import torch

from cutlayer.attacks.cosine_attack import cosine_attack
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.majority_count import majority_count_attack
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.tail_energy import tail_energy
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.protections import Marvell, NoNoise, Residual
from cutlayer.rng import SecretNoise

ROWS, WIDTH = 4_000, 8
LABELS = (torch.arange(ROWS) % 4 == 0).long()


def worst_attack(sent, hint):
    """The largest leak AUC of any attack on one release, in either direction."""
    scores = {
        "norm": norm_attack(sent),
        "cosine": cosine_attack(sent, hint),
        "first_component": first_component(sent),
        "majority_count": majority_count_attack(sent),
        "tail_energy": tail_energy(sent),
    }
    aucs = {name: leak_auc(score, LABELS) for name, score in scores.items()}
    return max(max(auc, 1 - auc) for auc in aucs.values())


def gradients():
    """Class means apart, the same spread around both."""
    generator = torch.Generator().manual_seed(1)
    spread = 0.02 * torch.randn(ROWS, WIDTH, generator=generator)
    direction = torch.nn.functional.normalize(torch.ones(WIDTH), dim=0)
    return spread + torch.where(LABELS[:, None] == 1, -1.0, 0.3) * direction


@pytest.mark.parametrize("goal", [0.6, 0.7, 0.8])
def test_s7_attacks_stay_below_marvells_bound_where_it_holds(goal):
    clean = gradients()
    marvell = Marvell(max_leak_auc=goal)
    sent = marvell.perturb(clean, LABELS, noise=SecretNoise())
    # The error of an AUC over 1,000 x 3,000 pairs is below .011.
    assert worst_attack(sent, clean[LABELS == 1].mean(0)) <= marvell.guarantee(1).leak_auc + 0.03


@pytest.mark.parametrize("goal", [0.55, 0.6, 0.7, 0.8])
def test_s7_attacks_stay_below_residuals_bound(goal):
    residual = Residual(max_leak_auc=goal, releases=1)
    logit = torch.zeros(ROWS)
    noisy = residual.noisy_residual(logit, LABELS, noise=SecretNoise())
    direction = torch.randn(WIDTH, generator=torch.Generator().manual_seed(2))
    assert worst_attack(noisy[:, None] * direction, -direction) <= goal + 0.03


def test_s7_the_same_attacks_find_every_label_without_a_protection():
    """The control."""
    clean = gradients()
    sent = NoNoise().perturb(clean, LABELS, noise=SecretNoise())
    assert worst_attack(sent, clean[LABELS == 1].mean(0)) >= 0.95
