"""N10: one label moves one row of a residual by 1, which is what the accountant counts with."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from cutlayer.leakage.gaussian_mechanism import gaussian_mu
from cutlayer.models import Top
from cutlayer.parties.compute import Compute
from cutlayer.parties.top_trainer import ResidualTopTrainer
from cutlayer.protections import Residual
from cutlayer.rng import NoiseSource
from tests.parties.conftest import question

EXAMPLES = [1_000, pytest.param(20_000, marks=pytest.mark.slow)]


class Silence(NoiseSource):
    """Zeros, so that two releases differ by what the label did alone."""

    reproducible = True

    @override
    def normal(self, *shape, device="cpu"):
        return torch.zeros(shape, dtype=torch.float64, device=device)


logits = st.lists(
    st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 88.0, -104.0, 1e-42, 17.0]),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("examples", EXAMPLES, ids=str)
def test_n10_one_label_moves_one_residual_by_exactly_what_the_accountant_counts(examples):
    @settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(logits, st.floats(0.01, 500), st.integers(0, 2**12 - 1), st.integers(0, 11))
    def moved(values, sigma, bits, chosen):
        logit = torch.tensor(values, dtype=torch.float32)
        labels = torch.tensor([bits >> i & 1 for i in range(len(values))])
        chosen %= len(values)
        flipped = labels.clone()
        flipped[chosen] ^= 1
        protection = Residual(sigma=sigma)
        before, after = (
            protection.noisy_residual(logit, each, noise=Silence()) for each in (labels, flipped)
        )
        difference = (before.double() - after.double()).abs()
        # Sensitivity 1 is mu = 1 / sigma; the grid is public and comes after the noise.
        sensitivity = gaussian_mu(sigma, releases=1) * sigma
        assert difference[chosen] == pytest.approx(sensitivity, abs=1e-12)
        difference[chosen] = 0
        assert not difference.any()

    moved()


@pytest.mark.parametrize("examples", [100, pytest.param(5_000, marks=pytest.mark.slow)], ids=str)
def test_n10_one_label_moves_one_row_of_a_message(examples):
    @settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.integers(2, 12), st.integers(0, 11), st.floats(0, 1e6))
    def moved(seed, rows, chosen, scale):
        generator = torch.Generator().manual_seed(seed)
        activation = torch.randn(rows, 3, generator=generator) * scale
        labels = torch.randint(2, (rows,), generator=generator)
        flipped = labels.clone()
        flipped[chosen % rows] ^= 1
        messages = []
        for each in (labels, flipped):
            tops = [Top(3, width, [4], torch.Generator().manual_seed(seed)) for width in (0, 1)]
            head = ResidualTopTrainer(
                *tops,
                Residual(sigma=1.0),
                lambda parameters: torch.optim.SGD(parameters, lr=0.1),
                Silence(),
                Compute(),
            )
            own = torch.ones(rows, 1)
            answer = head.answer(question(0, activation, own, each))
            messages.append(answer.gradient)
        moved_rows = (messages[0] != messages[1]).any(dim=1).nonzero().flatten().tolist()
        assert moved_rows in ([], [chosen % rows])  # none where a saturated unit lets nothing pass

    moved()
