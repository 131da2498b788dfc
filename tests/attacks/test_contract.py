"""What every attack must do, whoever registered it."""

import pytest
import torch

from cutlayer.attacks import ATTACKS, Attack, SideKnowledge
from cutlayer.attacks.base import FROM_RELEASE, SIDE_KNOWLEDGE
from cutlayer.errors import ConfigurationError, UnknownNameError
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.leakage.null_floor import null_deviation
from cutlayer.transcript import Release, Transcript, TranscriptWriter

every_attack = pytest.mark.parametrize("name", sorted(ATTACKS))


def release_of(gradient: torch.Tensor) -> Release:
    examples = gradient.shape[0]
    return Release(0, 0, torch.arange(examples), torch.zeros(examples, 1), gradient)


def scores_of(name: str, gradient: torch.Tensor, hint: torch.Tensor | None = None) -> torch.Tensor:
    hint = torch.ones(gradient.shape[-1], dtype=gradient.dtype) if hint is None else hint
    return ATTACKS[name].score(release_of(gradient), SideKnowledge(hint=hint))


def rows(examples: int, width: int, *, seed: int = 0) -> torch.Tensor:
    """Noisy gradients of two classes, float64."""
    generator = torch.Generator().manual_seed(seed)
    residual = torch.where(torch.rand(examples, generator=generator) < 0.2, 0.8, -0.2)
    noise = torch.randn(examples, width, generator=generator, dtype=torch.float64)
    return residual.double()[:, None] + 0.3 * noise


@every_attack
def test_declares_what_it_uses_and_that_is_no_label(name):
    assert set(ATTACKS[name]._parameters) <= {*FROM_RELEASE, *SIDE_KNOWLEDGE}
    assert "labels" not in FROM_RELEASE + SIDE_KNOWLEDGE


def test_an_attack_on_labels_is_no_attack():
    def cheat(gradient, labels):
        return labels

    with pytest.raises(ValueError, match="got a parameter 'labels' of cheat"):
        Attack(cheat)


def test_the_table_refuses_taken_and_unknown_names():
    with pytest.raises(ConfigurationError, match="'norm' exists"):
        ATTACKS.register("norm", ATTACKS["norm"])
    with pytest.raises(UnknownNameError, match="Known: norm, cosine"):
        ATTACKS["nrom"]


@every_attack
@pytest.mark.parametrize("factor", [1e-23, 3e-7, 1.0, 1e3])
def test_the_unit_of_the_gradient_changes_no_order(name, factor):
    gradient = rows(60, 8)
    assert torch.equal(
        scores_of(name, gradient).argsort(), scores_of(name, factor * gradient).argsort()
    )


@every_attack
def test_float32_gradients_whose_squares_underflow_are_ordered_alike(name):
    gradient = rows(60, 8).float()
    tiny = gradient * 2.0**-76  # about 1e-23; a power of two, so no digit changes
    assert float(tiny.square().sum()) == 0.0
    assert torch.equal(scores_of(name, gradient).argsort(), scores_of(name, tiny).argsort())


@every_attack
def test_rows_of_very_different_length_stay_finite(name):
    gradient = rows(12, 4)
    gradient[0] *= 1e-200
    gradient[1] *= 1e150
    assert bool(torch.isfinite(scores_of(name, gradient)).all())


@every_attack
def test_the_order_of_rows_does_not_matter(name):
    gradient = rows(50, 6)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(3))
    assert torch.allclose(scores_of(name, gradient)[order], scores_of(name, gradient[order]))


@every_attack
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_float_type_is_read_exactly(name, dtype):
    gradient = rows(40, 5).to(dtype)
    exact = scores_of(name, gradient.double())
    assert torch.equal(scores_of(name, gradient), exact)
    assert exact.dtype == torch.float64


@every_attack
def test_the_same_input_gives_the_same_scores_and_stays_untouched(name):
    gradient = rows(40, 5).requires_grad_()
    before = gradient.detach().clone()
    first, second = scores_of(name, gradient), scores_of(name, gradient)
    assert torch.equal(first, second)
    assert torch.equal(gradient.detach(), before)
    assert not first.requires_grad


@every_attack
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_refused_with_the_count_of_rows(name, bad):
    gradient = rows(10, 3)
    gradient[2, 1] = gradient[7, 0] = bad
    with pytest.raises(ValueError, match=r"gradient must be finite.* 2 of 10 rows"):
        scores_of(name, gradient)


@every_attack
@pytest.mark.parametrize("shape", [(5,), (0, 3), (3, 0), (2, 3, 4)])
def test_a_gradient_of_another_shape_is_refused(name, shape):
    arguments = {"gradient": torch.zeros(shape)}
    if "hint" in ATTACKS[name].side_knowledge:
        arguments["hint"] = torch.ones(3)
    with pytest.raises(ValueError, match=r"gradient must have shape \(examples, width\)"):
        ATTACKS[name].function(**arguments)


@every_attack
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 20)])
@pytest.mark.parametrize("fill", [0.0, 1.0, None])
def test_small_and_flat_batches_have_finite_scores(name, shape, fill):
    gradient = rows(*shape) if fill is None else torch.full(shape, fill)
    scores = scores_of(name, gradient)
    assert scores.shape == (shape[0],)
    assert bool(torch.isfinite(scores).all())


@every_attack
def test_one_zero_row_among_others_has_a_finite_score(name):
    gradient = rows(9, 4)
    gradient[3] = 0.0
    assert bool(torch.isfinite(scores_of(name, gradient)).all())


@every_attack
def test_nothing_is_learnt_from_gradients_without_labels(name):
    # Labels are drawn apart from the gradients, so the AUC is 0.5 with Mann and Whitney's
    # standard error; five of them.
    generator = torch.Generator().manual_seed(11)
    labels = (torch.rand(4000, generator=generator) < 0.3).long()
    scores = scores_of(name, rows(4000, 8, seed=12))
    positives = int(labels.sum())
    assert abs(leak_auc(scores, labels) - 0.5) < 5 * null_deviation(positives, 4000 - positives)


@every_attack
def test_a_transcript_whose_labels_do_not_exist_can_be_attacked(name, tmp_path):
    writer = TranscriptWriter(tmp_path, [str(i) for i in range(30)])
    writer.write(release_of(rows(30, 4)))
    knowledge = SideKnowledge(hint=torch.ones(4))
    (release,) = Transcript(tmp_path)
    assert ATTACKS[name].score(release, knowledge).shape == (30,)


def test_missing_side_knowledge_is_named():
    with pytest.raises(ValueError, match="cosine_attack needs a hint"):
        ATTACKS["cosine"].score(release_of(rows(5, 2)), SideKnowledge())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@every_attack
def test_scores_on_a_gpu_are_those_on_the_cpu(name):
    gradient = rows(64, 8)
    there = ATTACKS[name].score(
        release_of(gradient.cuda()), SideKnowledge(hint=torch.ones(8).double().cuda())
    )
    assert there.is_cuda
    assert torch.allclose(there.cpu(), scores_of(name, gradient))
