"""What every attack on one release must do, whoever registered it."""

import math
from dataclasses import replace

import pytest
import torch

from cutlayer.attacks import (
    ATTACKS,
    SIDE_KNOWLEDGE,
    WITHHELD,
    Attack,
    ClassModel,
    SideKnowledge,
    runnable,
)
from cutlayer.errors import ConfigurationError, UnknownNameError
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.leakage.null_floor import null_deviation
from cutlayer.transcript import Release, Transcript, TranscriptWriter

every_attack = pytest.mark.parametrize("name", sorted(ATTACKS))
every_attack_in_full = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if attack.cost == "expensive" else ())
        for name, attack in sorted(ATTACKS.items())
    ],
)
"""For tests that run an attack several times; the expensive ones wait for `make test-slow`."""
HINT_LABELS = torch.tensor([1, 1, 1, 0, 0, 0])


def release_of(rows: torch.Tensor) -> Release:
    """A release whose activations are the same rows, so that one test serves both channels."""
    return Release(0, 0, torch.arange(len(rows)), rows, rows)


def rows(examples: int, width: int, *, seed: int = 0) -> torch.Tensor:
    """Noisy gradients of two classes, float64."""
    generator = torch.Generator().manual_seed(seed)
    residual = torch.where(torch.rand(examples, generator=generator) < 0.2, 0.8, -0.2)
    noise = torch.randn(examples, width, generator=generator, dtype=torch.float64)
    return residual.double()[:, None] + 0.3 * noise


def knowledge_of(examples: int, width: int, *, factor: float = 1.0) -> SideKnowledge:
    """All that any attack may know, in a unit of ``factor``; it has nothing to do with labels."""
    known = factor * rows(6, width, seed=5)
    coins = torch.randint(2, (examples,), generator=torch.Generator().manual_seed(6))
    half = torch.arange(examples) % 2 == 0
    return SideKnowledge(
        hint=torch.full((width,), factor, dtype=torch.float64),
        hint_gradients=known,
        hint_activations=known,
        hint_labels=HINT_LABELS,
        prior=0.2,
        known_labels=torch.where(half, coins, WITHHELD),
        class_model=ClassModel(
            mean_pos=torch.full((width,), 0.8 * factor, dtype=torch.float64),
            mean_neg=torch.full((width,), -0.2 * factor, dtype=torch.float64),
            along_pos=factor**2,
            along_neg=2 * factor**2,
            across_pos=factor**2,
            across_neg=0.5 * factor**2,
        ),
    )


def scores_of(name: str, batch: torch.Tensor, *, factor: float = 1.0, seed: int = 0):
    knowledge = knowledge_of(batch.shape[0], batch.shape[-1], factor=factor)
    return ATTACKS[name].score(release_of(batch), knowledge, seed=seed)


def exact_factor(name: str, factor: float) -> float:
    """A power of two for attacks that search at random: rounding would lead them elsewhere."""
    return 2.0 ** round(math.log2(factor)) if ATTACKS[name].chance else factor


@every_attack
def test_tells_a_report_what_it_needs_and_where_it_is_from(name):
    attack = ATTACKS[name]
    assert attack.published
    assert attack.family != "own"
    assert all(SIDE_KNOWLEDGE[known] in attack.needs for known in attack.side_knowledge)
    assert attack.side_knowledge or attack.needs == "the messages alone"


def test_an_attack_on_labels_is_no_attack():
    def cheat(gradient, labels):
        return labels

    with pytest.raises(ValueError, match="got a parameter 'labels' of cheat"):
        Attack(cheat)


def test_an_attack_reads_rows_or_their_sum_and_not_both():
    def mixed(gradient, weight_gradient):
        return gradient[:, 0]

    with pytest.raises(ValueError, match="got a parameter 'gradient' of mixed"):
        Attack(mixed)


def test_a_choice_by_knowledge_and_cost():
    def costly(gradient, prior):
        return gradient[:, 0] * prior

    attacks = {**ATTACKS, "costly": Attack(costly, cost="expensive")}
    assert all(not attack.side_knowledge for attack in runnable(attacks).values())
    assert {"norm", "cosine"} <= set(runnable(attacks, known=["hint"]))
    assert "costly" not in runnable(attacks, known=["prior"])
    assert "costly" in runnable(attacks, known=["prior"], cost="expensive")
    assert "costly" not in runnable(attacks, known=["hint"], cost="expensive")


def test_the_table_refuses_taken_and_unknown_names():
    with pytest.raises(ConfigurationError, match="'norm' exists"):
        ATTACKS.register("norm", ATTACKS["norm"])
    with pytest.raises(UnknownNameError, match="Known: norm, cosine"):
        ATTACKS["nrom"]


@every_attack_in_full
@pytest.mark.parametrize("factor", [1e-23, 3e-7, 1.0, 1e3])
def test_the_unit_of_the_messages_changes_no_order(name, factor):
    batch, factor = rows(60, 8), exact_factor(name, factor)
    there = scores_of(name, factor * batch, factor=factor)
    assert torch.equal(scores_of(name, batch).argsort(), there.argsort())


@every_attack_in_full
def test_float32_rows_whose_squares_underflow_are_ordered_alike(name):
    batch = rows(60, 8).float()
    tiny = batch * 2.0**-76  # about 1e-23; a power of two, so no digit changes
    assert float(tiny.square().sum()) == 0.0
    there = scores_of(name, tiny, factor=2.0**-76)
    assert torch.equal(scores_of(name, batch).argsort(), there.argsort())


@every_attack_in_full
def test_rows_of_very_different_length_stay_finite(name):
    batch = rows(12, 4)
    batch[0] *= 1e-200
    batch[1] *= 1e150
    assert bool(torch.isfinite(scores_of(name, batch)).all())


@every_attack_in_full
def test_the_order_of_rows_does_not_matter(name):
    attack = ATTACKS[name]
    if attack.chance:
        pytest.skip("draws for each row, so the order decides which row gets which draw")
    batch, knowledge = rows(50, 6), knowledge_of(50, 6)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(3))
    moved = replace(knowledge, known_labels=knowledge.known_labels[order])
    here = attack.score(release_of(batch), knowledge)
    assert torch.allclose(here[order], attack.score(release_of(batch[order]), moved))


@every_attack_in_full
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_float_type_is_read_exactly(name, dtype):
    batch = rows(40, 5).to(dtype)
    exact = scores_of(name, batch.double())
    assert torch.equal(scores_of(name, batch), exact)
    assert exact.dtype == torch.float64


@every_attack
def test_the_same_input_gives_the_same_scores_and_stays_untouched(name):
    batch = rows(40, 5).requires_grad_()
    knowledge = knowledge_of(40, 5)
    before = batch.detach().clone()
    first = ATTACKS[name].score(release_of(batch), knowledge, seed=3)
    torch.rand(7)  # the global generator has no say
    assert torch.equal(ATTACKS[name].score(release_of(batch), knowledge, seed=3), first)
    assert torch.equal(batch.detach(), before)
    assert not first.requires_grad
    fresh = knowledge_of(40, 5)
    for field in ("hint", "hint_gradients", "hint_activations", "hint_labels", "known_labels"):
        assert torch.equal(getattr(knowledge, field), getattr(fresh, field))


@every_attack
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_messages_that_are_not_finite_are_refused_with_the_count_of_rows(name, bad):
    batch = rows(10, 3)
    batch[2, 1] = batch[7, 0] = bad
    with pytest.raises(ValueError, match=r"(gradient|activation) must be finite.* 2 of 10 rows"):
        scores_of(name, batch)


@every_attack
@pytest.mark.parametrize("shape", [(5,), (0, 3), (3, 0), (2, 3, 4)])
def test_messages_of_another_shape_are_refused(name, shape):
    attack, knowledge = ATTACKS[name], knowledge_of(3, 3)
    arguments = {known: getattr(knowledge, known) for known in attack.side_knowledge}
    arguments |= dict.fromkeys(attack.reads, torch.zeros(shape))
    arguments |= {"seed": 0} if attack.chance else {}
    with pytest.raises(ValueError, match=r"must have shape \(examples, width\)"):
        attack.function(**arguments)


@every_attack_in_full
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 20)])
@pytest.mark.parametrize("fill", [0.0, 1.0, None])
def test_small_and_flat_batches_have_finite_scores(name, shape, fill):
    batch = rows(*shape) if fill is None else torch.full(shape, fill)
    scores = scores_of(name, batch)
    assert scores.shape == (shape[0],)
    assert bool(torch.isfinite(scores).all())


@every_attack_in_full
def test_one_zero_row_among_others_has_a_finite_score(name):
    batch = rows(9, 4)
    batch[3] = 0.0
    assert bool(torch.isfinite(scores_of(name, batch)).all())


@every_attack
def test_nothing_is_learnt_from_messages_without_labels(name):
    # Labels are drawn apart from the messages, so the AUC is 0.5 with Mann and Whitney's standard
    # error; five of them. Of those that were given away, nothing is asked.
    generator = torch.Generator().manual_seed(11)
    labels = (torch.rand(4000, generator=generator) < 0.3).long()
    half = torch.rand(4000, generator=generator) < 0.5
    knowledge = replace(
        knowledge_of(4000, 8), known_labels=torch.where(half, labels, WITHHELD), prior=0.3
    )
    scores = ATTACKS[name].score(release_of(rows(4000, 8, seed=12)), knowledge)
    asked = ~half if "known_labels" in ATTACKS[name].side_knowledge else torch.ones_like(half)
    positives, examples = int(labels[asked].sum()), int(asked.sum())
    deviation = null_deviation(positives, examples - positives)
    assert abs(leak_auc(scores[asked], labels[asked]) - 0.5) < 5 * deviation


@every_attack_in_full
def test_a_transcript_whose_labels_do_not_exist_can_be_attacked(name, tmp_path):
    writer = TranscriptWriter(tmp_path, [str(i) for i in range(30)])
    writer.write(release_of(rows(30, 4)))
    writer.flush()
    (release,) = Transcript(tmp_path)
    assert ATTACKS[name].score(release, knowledge_of(30, 4)).shape == (30,)


@every_attack
def test_side_knowledge_that_is_missing_is_named(name):
    attack = ATTACKS[name]
    assert attack.missing(SideKnowledge()) == attack.side_knowledge
    for known in attack.side_knowledge:
        lacking = replace(knowledge_of(5, 2), **{known: None})
        with pytest.raises(ValueError, match=f"{attack.function.__name__} needs a {known}"):
            attack.score(release_of(rows(5, 2)), lacking)


with_hints = pytest.mark.parametrize(
    "name", sorted(n for n, a in ATTACKS.items() if "hint_labels" in a.side_knowledge)
)


@with_hints
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rows", torch.ones(6, 5), r"hint_\w+s must have shape \(6, 4\)"),
        ("rows", torch.full((6, 4), torch.nan), r"hint_\w+s must be finite"),
        ("hint_labels", torch.ones(6), "hint_labels must hold both classes"),
        ("hint_labels", torch.ones(5), r"hint_labels must have shape \(6,\)"),
    ],
)
def test_hints_of_no_use_are_refused(name, field, value, message):
    fields = ("hint_gradients", "hint_activations") if field == "rows" else (field,)
    knowledge = replace(knowledge_of(9, 4), **dict.fromkeys(fields, value))
    with pytest.raises(ValueError, match=message):
        ATTACKS[name].score(release_of(rows(9, 4)), knowledge)


@with_hints
def test_turned_labels_of_hints_turn_the_scores(name):
    batch = rows(200, 4, seed=9)
    turned = replace(knowledge_of(200, 4), hint_labels=1 - HINT_LABELS)
    here, there = scores_of(name, batch), ATTACKS[name].score(release_of(batch), turned)
    # Known positives alone are read by the inner product: other positives, the same direction.
    if name != "hint_inner_product":
        assert float(torch.corrcoef(torch.stack([here, there]))[0, 1]) < -0.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@every_attack
def test_scores_on_a_gpu_are_those_on_the_cpu(name):
    batch, knowledge = rows(64, 8), knowledge_of(64, 8)
    tensors = {k: v.cuda() for k, v in vars(knowledge).items() if isinstance(v, torch.Tensor)}
    there = ATTACKS[name].score(release_of(batch.cuda()), replace(knowledge, **tensors))
    assert there.is_cuda
    assert torch.allclose(there.cpu(), ATTACKS[name].score(release_of(batch), knowledge))
