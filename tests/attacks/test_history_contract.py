"""What every attack on a whole training must do, whoever registered it."""

from dataclasses import replace

import pytest
import torch

from cutlayer.attacks import (
    ATTACKS,
    HISTORY_ATTACKS,
    SIDE_KNOWLEDGE,
    WITHHELD,
    History,
    HistoryAttack,
    SideKnowledge,
    average_of,
    score_history,
)
from cutlayer.errors import UnknownNameError
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.leakage.null_floor import null_deviation
from cutlayer.transcript import Release, Transcript, TranscriptWriter
from tests.attacks.test_contract import knowledge_of, rows

every_attack = pytest.mark.parametrize("name", sorted(HISTORY_ATTACKS))
every_attack_in_full = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if attack.cost == "expensive" else ())
        for name, attack in sorted(HISTORY_ATTACKS.items())
    ],
)
"""For tests that run an attack several times; the expensive ones wait for `make test-slow`."""
RECORDS, BATCH, WIDTH = 120, 40, 6


def training(epochs=3, *, records=RECORDS, batch=BATCH, width=WIDTH, factor=1.0):
    """Releases of a training whose rows have nothing to do with any label."""
    generator = torch.Generator().manual_seed(1)
    releases = []
    for epoch in range(epochs):
        for chosen in torch.randperm(records, generator=generator).split(batch):
            step = len(releases)
            sent = factor * rows(len(chosen), width, seed=step)
            releases.append(Release(step, epoch, chosen, sent, sent.clone()))
    return releases


def knowledge_for(records=RECORDS, *, factor=1.0, width=WIDTH) -> SideKnowledge:
    """All that may be known; labels of every other record are told."""
    return knowledge_of(records, width, factor=factor)


def scores_of(name, releases, *, records=RECORDS, knowledge=None, seed=0):
    knowledge = knowledge_for(records) if knowledge is None else knowledge
    return score_history(HISTORY_ATTACKS[name], releases, records, knowledge, seed=seed)


def held(value, seen=None) -> int:
    """Numbers in all tensors that an object holds, however deep."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, dict):
        return sum(held(part, seen) for part in value.values())
    if isinstance(value, (list, tuple)):
        return sum(held(part, seen) for part in value)
    return held(vars(value), seen) if hasattr(value, "__dict__") and not callable(value) else 0


@every_attack
def test_tells_a_report_what_it_needs_and_where_it_is_from(name):
    attack = HISTORY_ATTACKS[name]
    assert attack.published
    assert attack.family != "own"
    assert set(attack.side_knowledge) <= set(SIDE_KNOWLEDGE)
    assert all(SIDE_KNOWLEDGE[known] in attack.needs for known in attack.side_knowledge)
    assert attack.side_knowledge or attack.needs == "the messages alone"


def test_an_attack_may_not_declare_labels():
    with pytest.raises(ValueError, match="got 'labels'"):
        HistoryAttack(lambda records, seed: None, after=("labels",))


class Spy(History):
    """Keeps what it was handed."""

    def __init__(self, records, seed):
        self.records, self.handed = records, []

    def observe(self, release, knowledge):
        self.handed.append(knowledge)

    def scores(self, knowledge):
        self.handed.append(knowledge)
        return torch.zeros(self.records).double()


def test_an_attack_is_handed_what_it_declares_and_nothing_else():
    attack = HistoryAttack(Spy, during=("hint",), after=("prior",))
    run = attack.start(RECORDS)
    everything = knowledge_for()
    run.observe(training(1)[0], everything)
    run.scores(everything)
    during, after = run._history.handed
    for field in SIDE_KNOWLEDGE:
        assert (getattr(during, field) is not None) == (field == "hint")
        assert (getattr(after, field) is not None) == (field == "prior")


@every_attack
def test_knowledge_that_is_missing_is_named(name):
    attack = HISTORY_ATTACKS[name]
    run = attack.start(RECORDS)
    assert run.missing(SideKnowledge()) == attack.during
    for known in attack.during:
        with pytest.raises(ValueError, match=known):
            run.observe(training(1)[0], replace(knowledge_for(), **{known: None}))
    for known in attack.after:
        with pytest.raises(ValueError, match=known):
            run.scores(replace(knowledge_for(), **{known: None}))


def test_every_cheap_attack_on_one_release_has_its_average():
    of = {a.average_of for a in HISTORY_ATTACKS.values()} - {None}
    cheap = {n for n, attack in ATTACKS.items() if attack.cost == "cheap"}
    assert of == cheap - {"likelihood_ratio"}  # that one is summed
    with pytest.raises(UnknownNameError, match="No attack is called 'nrom'"):
        average_of("nrom")


@every_attack
def test_the_same_seed_gives_the_same_scores_and_nothing_is_changed(name):
    releases, knowledge = training(), knowledge_for()
    first = scores_of(name, releases, knowledge=knowledge, seed=4)
    torch.rand(3)  # the global generator has no say
    again = scores_of(name, releases, knowledge=knowledge, seed=4)
    assert torch.equal(first.nan_to_num(7.0), again.nan_to_num(7.0))
    for before, after in zip(training(), releases, strict=True):
        assert torch.equal(before.gradient, after.gradient)
        assert torch.equal(before.activation, after.activation)
    assert torch.equal(knowledge.known_labels, knowledge_for().known_labels)


@every_attack_in_full
def test_scores_may_be_asked_for_on_the_way(name):
    releases, knowledge = training(), knowledge_for()
    run = HISTORY_ATTACKS[name].start(RECORDS)
    for release in releases:
        run.observe(release, knowledge)
        run.scores(knowledge) if release.step == 3 else None
    last = run.scores(knowledge)
    assert torch.equal(last.nan_to_num(7.0), scores_of(name, releases).nan_to_num(7.0))


@every_attack_in_full
@pytest.mark.parametrize("factor", [2.0**-76, 2.0**20])
def test_the_unit_of_the_messages_changes_no_order(name, factor):
    here = scores_of(name, training())
    there = scores_of(name, training(factor=factor), knowledge=knowledge_for(factor=factor))
    judged = ~here.isnan()
    assert torch.equal(judged, ~there.isnan())
    assert torch.equal(here[judged].argsort(), there[judged].argsort())


@every_attack_in_full
def test_records_that_were_never_visited_have_no_score(name):
    scores = scores_of(name, training(records=80), records=RECORDS)
    assert bool(scores[80:].isnan().all())
    seen = knowledge_for().known_labels[:80] == WITHHELD
    assert bool(scores[:80][seen].isfinite().all())


@every_attack_in_full
def test_records_whose_label_was_told_are_not_judged(name):
    scores, told = scores_of(name, training()), knowledge_for().known_labels != WITHHELD
    if "known_labels" in HISTORY_ATTACKS[name].after:
        assert bool(scores[told].isnan().all())
    assert bool(scores[~told].isfinite().all())


@every_attack
def test_an_attack_that_saw_nothing_scores_nothing(name):
    scores = HISTORY_ATTACKS[name].start(5).scores(knowledge_for(5))
    assert scores.shape == (5,)
    assert bool(scores.isnan().all())


@every_attack_in_full
@pytest.mark.parametrize("fill", [0.0, 1.0])
@pytest.mark.parametrize("batch", [1, 2, 40])
def test_flat_and_small_batches_stay_finite(name, fill, batch):
    releases = [
        replace(
            r, gradient=torch.full_like(r.gradient, fill), activation=torch.ones_like(r.activation)
        )
        for r in training(2, records=40, batch=batch)
    ]
    scores = scores_of(name, releases, records=40, knowledge=knowledge_for(40))
    assert not bool(scores.isinf().any())
    if HISTORY_ATTACKS[name].average_of is None and name != "visit_differences":
        assert bool(scores[knowledge_for(40).known_labels == WITHHELD].isfinite().all())


@every_attack
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_release_that_is_not_finite_is_refused(name, bad):
    (release, *_) = training(1)
    broken = release.gradient.clone()
    broken[2, 1] = bad
    run = HISTORY_ATTACKS[name].start(RECORDS)
    with pytest.raises(ValueError, match=r"must be finite.* 1 of 40 rows"):
        run.observe(replace(release, gradient=broken, activation=broken), knowledge_for())


@every_attack
@pytest.mark.parametrize("records", [[0, 1, RECORDS], [0, 1, 1], [-1, 0, 1]])
def test_records_that_do_not_exist_or_stand_twice_are_refused(name, records):
    sent = rows(3, WIDTH)
    release = Release(0, 0, torch.tensor(records), sent, sent)
    with pytest.raises(ValueError, match="records must"):
        HISTORY_ATTACKS[name].start(RECORDS).observe(release, knowledge_for())


@every_attack
def test_memory_does_not_grow_with_steps_nor_with_the_width(name):
    wide = {}
    for epochs in (2, 6):
        run = HISTORY_ATTACKS[name].start(2000)
        for release in training(epochs, records=100, width=300):
            run.observe(release, knowledge_for(100, width=300))
        wide[epochs] = held(run._history)
    fixed = 300 * (32 + 32 + 16 + 32)  # projections
    assert wide[6] == wide[2] <= 2000 * 90 + fixed


@every_attack
def test_nothing_is_learnt_from_a_training_without_labels(name):
    # Labels are drawn apart from the messages: 0.5 within five of Mann and Whitney's errors.
    generator = torch.Generator().manual_seed(11)
    labels = (torch.rand(3000, generator=generator) < 0.3).long()
    told = torch.rand(3000, generator=generator) < 0.5
    knowledge = replace(knowledge_for(500), known_labels=torch.where(told, labels, WITHHELD))
    run = HISTORY_ATTACKS[name].start(3000)
    for release in training(3, records=3000, batch=500):
        run.observe(release, replace(knowledge, known_labels=None))
    scores = run.scores(replace(knowledge, prior=0.3))
    judged = ~scores.isnan()
    positives = int(labels[judged].sum())
    deviation = null_deviation(positives, int(judged.sum()) - positives)
    assert abs(leak_auc(scores[judged], labels[judged]) - 0.5) < 5 * deviation


@every_attack_in_full
def test_a_transcript_on_disk_can_be_attacked(name, tmp_path):
    writer = TranscriptWriter(tmp_path, [str(i) for i in range(RECORDS)])
    for release in training(2):
        writer.write(release)
    writer.flush()
    found = score_history(HISTORY_ATTACKS[name], Transcript(tmp_path), RECORDS, knowledge_for())
    assert found.shape == (RECORDS,)
    assert bool(found.isfinite().any())
