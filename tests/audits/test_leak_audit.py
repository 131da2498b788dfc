import gc
import math
import weakref

import pytest
import torch

from cutlayer.attacks import ATTACKS, HISTORY_ATTACKS, Attack
from cutlayer.audits import AuditScope, GroundTruth, Hint, LeakAuditor, audit_leak
from cutlayer.leakage.null_floor import null_deviation, null_floor
from cutlayer.transcript import Release


def first_column(gradient: torch.Tensor) -> torch.Tensor:
    """An attack whose scores are written into the gradient, so that a test knows them."""
    return gradient[:, 0]


def along_hint(gradient: torch.Tensor, hint: torch.Tensor) -> torch.Tensor:
    return gradient[:, 0] * hint[0]


WRITTEN = {"written": Attack(first_column)}
HINTED = {"hinted": Attack(along_hint)}


def release(step, scores, *, records=None, epoch=0) -> Release:
    gradient = torch.tensor(scores, dtype=torch.float64)[:, None]
    records = torch.arange(len(scores)) if records is None else torch.tensor(records)
    return Release(step, epoch, records, torch.zeros(len(scores), 1), gradient)


def measured(audit, releases, attack=None, layer="cut"):
    """The one measurement of this kind."""
    (found,) = (
        m
        for m in audit.measurements
        if m.releases == releases and m.layer == layer and attack in (None, m.attack)
    )
    return found


@pytest.fixture(scope="module")
def by_hand():
    """Records 0 and 2 are positive. Step 0 scores 3 2 1 0, step 1 scores 5 0 4 1."""
    releases = [release(0, [3, 2, 1, 0]), release(1, [5, 0, 4, 1], epoch=1)]
    return audit_leak(releases, GroundTruth(torch.tensor([1, 0, 1, 0])), attacks=WRITTEN)


def test_one_release_by_hand(by_hand):
    # Step 0: 3 beats 2 and 0, 1 beats 0 alone: 3 of 4 pairs. Step 1: all four.
    one = measured(by_hand, "one")
    assert (one.attack, one.layer, one.target) == ("written", "cut", "labels")
    assert one.leak_auc == one.raw_auc == pytest.approx((0.75 + 1.0) / 2)
    assert one.leak_auc_p95 == pytest.approx(0.75 + 0.95 * 0.25)
    assert (one.batches, one.one_class_batches, one.hintless_batches) == (2, 0, 0)
    assert one.null_floor == null_floor(2, 2)
    assert one.null_deviation == null_deviation(2, 2)


def test_pooled_over_the_last_epoch_by_hand(by_hand):
    # Epoch 1 is step 1 alone, whose AUC is 1.
    assert (measured(by_hand, "one").pooled_auc, measured(by_hand, "one").pooled_epoch) == (1.0, 1)


def test_all_releases_by_hand(by_hand):
    # Standardised step 0: (1.5, .5, -.5, -1.5) / 1.118; step 1: (2.5, -2.5, 1.5, -1.5) / 2.062.
    # Means: 1.28, -.38, .14, -1.03: both positives are above both negatives.
    every = measured(by_hand, "all")
    assert (every.leak_auc, every.raw_auc, every.batches) == (1.0, 1.0, 2)
    assert every.leak_auc_p95 is every.pooled_auc is every.pooled_epoch is None
    assert every.null_floor == null_floor(2, 2)


def test_curve_and_counts_by_hand(by_hand):
    (curve,) = by_hand.curves
    assert (curve.attack, curve.layer, curve.step) == ("written", "cut", (0, 1))
    assert curve.leak_auc == (0.75, 1.0)
    assert curve.null_floor == (null_floor(2, 2),) * 2
    assert (by_hand.releases, by_hand.rows, by_hand.target) == (2, 8, "labels")


def test_an_attack_that_is_always_wrong_leaks_as_much_as_one_that_is_right():
    audit = audit_leak([release(0, [0, 1])], GroundTruth(torch.tensor([1, 0])), attacks=WRITTEN)
    for releases in ("one", "all"):
        found = measured(audit, releases)
        assert (found.raw_auc, found.leak_auc) == (0.0, 1.0)
    assert audit.curves[0].leak_auc == (1.0,)


def test_the_median_of_symmetrised_values_is_not_the_symmetrised_median():
    # Raw AUCs 0 and 1: each batch gives all away once the sign is known, the raw median is 1/2.
    releases = [release(0, [0, 1]), release(1, [1, 0])]
    one = measured(audit_leak(releases, GroundTruth(torch.tensor([1, 0])), attacks=WRITTEN), "one")
    assert (one.leak_auc, one.raw_auc) == (1.0, 0.5)


def test_pooling_standardises_each_batch():
    # Batches of another unit and offset: ordered together without care, the AUC would be 1/2.
    releases = [
        release(0, [0.2, 0.1], records=[0, 1]),
        release(1, [1001, 1000], records=[2, 3]),
    ]
    audit = audit_leak(releases, GroundTruth(torch.tensor([1, 0, 1, 0])), attacks=WRITTEN)
    assert measured(audit, "one").pooled_auc == 1.0


def test_pooling_forgets_earlier_epochs():
    releases = [
        release(0, [0, 1, 2, 3]),  # records 0 and 1 are positive: all wrong
        release(1, [1, 0], records=[0, 2], epoch=1),
    ]
    one = measured(
        audit_leak(releases, GroundTruth(torch.tensor([1, 1, 0, 0])), attacks=WRITTEN), "one"
    )
    assert (one.pooled_auc, one.pooled_epoch) == (1.0, 1)


def test_batches_of_one_class_are_counted_and_their_scores_averaged():
    releases = [
        release(0, [1, 0], records=[0, 1]),  # two positives
        release(1, [1, 0], records=[2, 3]),
    ]
    audit = audit_leak(releases, GroundTruth(torch.tensor([1, 1, 1, 0])), attacks=WRITTEN)
    one = measured(audit, "one")
    assert (one.batches, one.one_class_batches, one.leak_auc) == (1, 1, 1.0)
    # Averages 1, -1, 1, -1: the negative ties with record 1 and loses to two: 2.5 of 3.
    assert measured(audit, "all").raw_auc == pytest.approx(2.5 / 3)
    assert measured(audit, "all").batches == 2


def test_without_two_classes_nothing_is_claimed():
    audit = audit_leak([release(0, [1, 0])], GroundTruth(torch.tensor([1, 1])), attacks=WRITTEN)
    for found in audit.measurements:
        assert found.leak_auc is found.raw_auc is found.null_floor is found.null_deviation is None
    assert audit.curves[0].step == ()


def test_without_releases_nothing_is_claimed():
    audit = audit_leak([], GroundTruth(torch.tensor([1, 0])))
    assert audit.releases == audit.rows == 0
    assert all(found.leak_auc is None for found in audit.measurements)


def test_records_of_unknown_label_do_not_count():
    audit = audit_leak(
        [release(0, [9, 1, 0])], GroundTruth(torch.tensor([-1, 1, 0])), attacks=WRITTEN
    )
    assert measured(audit, "one").leak_auc == 1.0
    assert measured(audit, "one").null_floor == null_floor(1, 1)


def test_only_canaries_count_where_there_are_any():
    # The scores order records 0 to 3 rightly and the canaries 4 to 7 in 1 of 4 pairs.
    labels = torch.tensor([1, 1, 0, 0, 1, 1, 0, 0])
    canaries = torch.arange(8) >= 4
    releases = [release(0, [9, 8, 1, 0, 2, 5, 6, 4])]
    audit = audit_leak(releases, GroundTruth(labels, canaries), attacks=WRITTEN)
    for of in ("one", "all"):
        found = measured(audit, of)
        assert (found.target, found.raw_auc, found.leak_auc) == ("canaries", 0.25, 0.75)
        assert found.null_floor == null_floor(2, 2)
    assert audit.curves[0].target == audit.target == "canaries"
    assert sum(audit.histograms[0].positive) == pytest.approx(1.0)


def test_features_alone_do_not_move_the_canaries():
    # Scores know every label but the coins: the AUC over 2,000 canaries is 1/2 within five of
    # Mann and Whitney's deviations, while the other records are read without error.
    generator = torch.Generator().manual_seed(0)
    natural = torch.randint(2, (4000,), generator=generator)
    canaries = torch.arange(4000) < 2000
    coins = torch.randint(2, (4000,), generator=generator)
    labels = torch.where(canaries, coins, natural)
    releases = [release(0, (natural + 0.1 * torch.rand(4000, generator=generator)).tolist())]
    found = measured(audit_leak(releases, GroundTruth(labels, canaries), attacks=WRITTEN), "all")
    positives = int(labels[:2000].sum())
    assert abs(found.raw_auc - 0.5) < 5 * null_deviation(positives, 2000 - positives)
    assert measured(audit_leak(releases, GroundTruth(labels), attacks=WRITTEN), "all").raw_auc > 0.7


def test_the_row_of_the_hint_is_left_out_only_where_the_hint_is_used():
    # Record 0, the hint, has the highest score. Without it: 1 loses to 2 and beats 0: 1/2.
    releases = [release(0, [9, 1, 2, 0])]
    truth = GroundTruth(torch.tensor([1, 1, 0, 0]))
    hints = {0: Hint(0, torch.ones(1).double())}
    audit = audit_leak(releases, truth, hints=hints, attacks={**HINTED, **WRITTEN})
    assert measured(audit, "one", "hinted").raw_auc == 0.5
    assert measured(audit, "one", "hinted").null_floor == null_floor(1, 2)
    assert measured(audit, "all", "hinted").raw_auc == 0.5
    assert measured(audit, "one", "written").raw_auc == 0.75


@pytest.mark.parametrize(
    "hints", [None, {}, {5: Hint(0, torch.ones(1))}, {0: Hint(0, torch.zeros(1))}]
)
def test_a_batch_without_a_usable_hint_is_counted(hints):
    truth = GroundTruth(torch.tensor([1, 0]))
    audit = audit_leak([release(0, [1, 0])], truth, hints=hints, attacks=HINTED)
    for of in ("one", "all"):
        found = measured(audit, of)
        assert (found.batches, found.hintless_batches, found.leak_auc) == (0, 1, None)


def test_a_hint_that_leaves_no_row_is_survived():
    truth = GroundTruth(torch.tensor([1, 0]))
    hints = {0: Hint(0, torch.ones(1).double())}
    audit = audit_leak([release(0, [1])], truth, hints=hints, attacks=HINTED)
    assert measured(audit, "one").one_class_batches == 1
    assert measured(audit, "all").leak_auc is None


def test_averaging_tells_what_one_release_hides():
    # Noise of twice the gap, 25 visits: Phi(5 / (2 sqrt 2)) = 0.961 against .638 in one release.
    generator = torch.Generator().manual_seed(1)
    labels = (torch.arange(2000) % 4 == 0).long()
    releases = (
        release(step, (labels + 2 * torch.randn(2000, generator=generator)).tolist(), epoch=step)
        for step in range(25)
    )
    audit = audit_leak(releases, GroundTruth(labels), attacks=WRITTEN)
    assert abs(measured(audit, "one").leak_auc - 0.638) < 5 * 0.02 / math.sqrt(25)
    assert abs(measured(audit, "all").leak_auc - 0.961) < 5 * math.sqrt(0.961 * 0.039 / 500)


def test_the_whole_suite_on_plain_gradients_finds_the_labels():
    generator = torch.Generator().manual_seed(2)
    labels = (torch.rand(600, generator=generator) < 0.2).long()
    gradient = (0.2 - labels.double())[:, None] * torch.tensor([1.0, -2.0, 0.5]).double()
    positive = int(labels.nonzero()[0])
    sent = Release(0, 0, torch.arange(600), torch.zeros(600, 3), gradient)
    audit = audit_leak(
        [sent], GroundTruth(labels), hints={0: Hint(positive, gradient[positive])}, attacks=ATTACKS
    )
    for attack in ("norm", "cosine", "majority_count", "first_component"):
        assert measured(audit, "one", attack).raw_auc == 1.0
        assert measured(audit, "all", attack).raw_auc == 1.0


def test_the_first_layer_is_measured_beside_the_cut():
    def deeper(seen, hint):
        turned = Release(seen.step, seen.epoch, seen.records, seen.activation, -seen.gradient)
        return turned, hint

    truth = GroundTruth(torch.tensor([1, 0]))
    audit = audit_leak([release(0, [1, 0])], truth, attacks=WRITTEN, first_layer=deeper)
    assert measured(audit, "one").raw_auc == 1.0
    assert measured(audit, "one", layer="first").raw_auc == 0.0
    assert [histogram.layer for histogram in audit.histograms] == ["cut", "cut", "first", "first"]


def test_no_release_is_held():
    seen: list[weakref.ref] = []

    def stream():
        for step in range(5):
            sent = release(step, [1, 0])
            seen.append(weakref.ref(sent))
            yield sent
            del sent
            gc.collect()
            assert sum(r() is not None for r in seen) <= 1  # the caller's loop variable

    audit_leak(stream(), GroundTruth(torch.tensor([1, 0])), attacks=WRITTEN)
    gc.collect()
    assert not any(r() is not None for r in seen)


def test_an_audit_may_be_read_while_it_goes_on():
    auditor = LeakAuditor(GroundTruth(torch.tensor([1, 0])), attacks=WRITTEN)
    auditor.observe(release(0, [1, 0]))
    assert measured(auditor.result(), "one").batches == 1
    auditor.observe(release(1, [0, 1]))
    assert measured(auditor.result(), "one").batches == 2


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (release(3, [1, 0], epoch=1), "got step 3 of epoch 1 after step 3 of epoch 1"),
        (release(2, [1, 0], epoch=2), "order of steps and epochs"),
        (release(4, [1, 0], epoch=0), "order of steps and epochs"),
        (release(4, [1, 0], records=[0, 2], epoch=1), "truth must have an entry for record 2"),
        (release(4, [1, math.nan], epoch=1), "The release of step 4: gradient must be finite"),
    ],
)
def test_releases_of_no_use_are_refused_by_step(second, message):
    auditor = LeakAuditor(GroundTruth(torch.tensor([1, 0])), attacks={"norm": ATTACKS["norm"]})
    auditor.observe(release(3, [1, 0], epoch=1))
    with pytest.raises(ValueError, match=message):
        auditor.observe(second)


def test_an_audit_without_attacks_is_refused():
    with pytest.raises(ValueError, match="at least one attack"):
        audit_leak([], GroundTruth(torch.tensor([1, 0])), attacks={})


def test_an_epoch_that_was_sent_again_is_attacked_again():
    auditor = LeakAuditor(GroundTruth(torch.tensor([1, 0])), attacks=WRITTEN)
    for sent in (release(0, [1, 0]), release(1, [1, 0], epoch=1), release(1, [0, 1], epoch=1)):
        if sent.step == 1 and auditor.result().releases == 2:
            sent = release(0, [0, 1], epoch=0)  # both parties had kept nothing but the start
        auditor.observe(sent)
    assert measured(auditor.result(), "all").batches == 3


def test_after_each_number_of_epochs_by_hand():
    # Epochs of one batch. Standardised scores of two records are 1 and -1, so the averages of
    # records 0 (positive) and 1 after 1, 2, 3 epochs are +-1, 0, +-1/3: AUC 1, 1/2 (a tie), 1.
    releases = [
        release(0, [2, 1]),
        release(1, [1, 2], epoch=1),
        release(2, [5, 1], epoch=2),
    ]
    scope = AuditScope(after=(1, 2, 3))
    audit = audit_leak(releases, GroundTruth(torch.tensor([1, 0])), attacks=WRITTEN, scope=scope)
    early = {m.epochs: m.raw_auc for m in audit.measurements if m.releases == "some"}
    assert early == {1: 1.0, 2: 0.5}  # after 3 is all
    assert (measured(audit, "all").raw_auc, measured(audit, "all").epochs) == (1.0, 3)
    assert measured(audit, "one").epochs is None


def test_intervals_and_true_positives_are_those_of_the_scores():
    from cutlayer.leakage import auc_interval, true_positive_rate

    generator = torch.Generator().manual_seed(4)
    labels = (torch.arange(500) % 5 == 0).long()
    scores = torch.randn(500, generator=generator, dtype=torch.float64) - labels  # turned round
    found = measured(
        audit_leak([release(0, scores.tolist())], GroundTruth(labels), attacks=WRITTEN), "all"
    )
    interval = auc_interval(found.raw_auc, scores, labels)
    assert found.raw_auc < 0.5
    assert found.interval.low == pytest.approx(1 - interval.high)
    assert found.interval.low < found.leak_auc < found.interval.high
    expected = true_positive_rate(-scores, labels, false_positive_rate=0.01)
    assert found.true_positive_rate == pytest.approx(expected)


def few_known(gradient, hint_gradients, hint_labels):
    """Scores by the known positives' mean, and breaks if it is given anything else."""
    assert set(hint_labels.tolist()) == {0, 1}
    assert bool((hint_gradients[:, 1] == hint_labels).all())  # the label is written there
    return gradient[:, 0] * hint_gradients[hint_labels == 1, 0].mean()


def test_known_records_stay_the_same_and_are_left_out():
    labels = (torch.arange(60) % 3 == 0).long()
    rows = torch.stack([labels.double() * 2 - 1, labels.double()], dim=1)
    seen = []

    def attack(gradient, hint_gradients, hint_labels):
        seen.append(len(hint_labels))
        return few_known(gradient, hint_gradients, hint_labels)

    releases = [
        Release(step, step // 2, records, torch.zeros(30, 1), rows[records])
        for step in range(6)
        for records in [torch.arange(60)[(step % 2) * 30 :][:30]]
    ]
    scope = AuditScope(hints=(0, 1, 5), seeds=3, few_records=True)
    audit = audit_leak(releases, GroundTruth(labels), attacks={"few": Attack(attack)}, scope=scope)
    found = [m for m in audit.measurements if m.releases == "all"]
    assert [(m.hints, m.seeds) for m in found] == [(1, 3), (5, 3)]
    for m in found:
        assert m.raw_auc == 1.0
        assert m.needs == (
            f"the labels of {m.hints} record{'s' * (m.hints > 1)} of each class, "
            "and what was sent for them"
        )
        # 20 positives and 40 negatives, less the known ones.
        assert m.null_floor == null_floor(20 - m.hints, 40 - m.hints)
    assert max(seen) == 10


def test_known_records_of_fewer_hints_are_among_those_of_more():
    from cutlayer.audits.known_records import HintBank

    truth = GroundTruth((torch.arange(200) % 4 == 0).long(), torch.arange(200) < 100)
    one, five = (HintBank(truth, count, seed=3).known for count in (1, 5))
    assert (int(one.sum()), int(five.sum())) == (2, 10)
    assert bool((one <= five).all())
    assert not bool(five[:100].any())  # canaries are never known


def test_half_of_the_labels_are_known_and_the_other_half_is_judged():
    labels = (torch.arange(80) % 2).long()

    def learned(gradient, known_labels):
        assert set(known_labels.tolist()) == {-1, 0, 1}
        right = known_labels[known_labels >= 0]
        assert torch.equal(right, labels[known_labels >= 0])
        return gradient[:, 0]

    scope = AuditScope(seeds=2, few_records=True)
    audit = audit_leak(
        [release(0, labels.tolist())],
        GroundTruth(labels),
        attacks={"learned": Attack(learned)},
        scope=scope,
    )
    found = measured(audit, "all")
    assert found.seeds == 2
    assert found.batches == 1


def test_the_middle_seed_is_reported_and_the_worst_beside_it():
    from dataclasses import replace

    from cutlayer.audits.attack_tally import over_seeds

    (found,) = (
        m
        for m in audit_leak(
            [release(0, [1, 0])], GroundTruth(torch.tensor([1, 0])), attacks=WRITTEN
        ).measurements
        if m.releases == "all"
    )
    group = [replace(found, leak_auc=leak, seed=i) for i, leak in enumerate((0.9, 0.6, 0.7))]
    (middle,) = over_seeds(group)
    assert (middle.leak_auc, middle.worst_seed, middle.seeds) == (0.7, 0.9, 3)


def test_the_class_model_is_that_of_the_batch():
    from cutlayer.audits.known_records import class_model_of

    # Positives (3, +-1), negatives (-1, +-2) and (1, 0): gap (3, 0).
    rows = torch.tensor([[3.0, 1], [3, -1], [4, 0], [2, 0], [-1, 2], [-1, -2], [1, 0]])
    labels = torch.tensor([1, 1, 1, 1, 0, 0, 0])
    model = class_model_of(rows, labels)
    assert model.mean_pos.tolist() == [3.0, 0.0]
    assert model.along_pos == pytest.approx(2 / 3)  # (1 + 1) / (4 - 1)
    assert model.across_pos == pytest.approx(2 / 3)
    assert model.across_neg == pytest.approx(8 / 2)
    assert class_model_of(rows, torch.ones(7).long()) is None
    assert class_model_of(rows[:, :1], labels).across_pos == 1.0


def test_whole_trainings_are_attacked_for_everybody_who_knows_something_else():
    from cutlayer.attacks import HISTORY_ATTACKS

    generator = torch.Generator().manual_seed(6)
    labels = (torch.rand(300, generator=generator) < 0.3).long()
    direction = torch.tensor([1.0, -2.0, 0.5, 0.0])
    releases = []
    for step in range(12):
        noise = 4 * torch.randn(300, 4, generator=generator)
        gradient = (0.3 - labels.float())[:, None] * direction + 0.5 * noise
        releases.append(Release(step, step, torch.arange(300), noise, gradient))
    scope = AuditScope(hints=(0, 1, 5), seeds=2, after=(1,), few_records=True, histories=True)
    names = ("mean_gradient_probe", "mean_gradient_spectrum", "learned_history")
    audit = audit_leak(
        releases,
        GroundTruth(labels),
        attacks={name: HISTORY_ATTACKS[name] for name in names},
        scope=scope,
    )
    found = {(m.attack, m.hints, m.releases, m.epochs): m for m in audit.measurements}
    assert set(found) == {
        (name, hints, releases, epochs)
        for name, hints in (
            ("mean_gradient_probe", 1),
            ("mean_gradient_probe", 5),
            ("mean_gradient_spectrum", 0),
            ("learned_history", 0),
        )
        for releases, epochs in (("some", 1), ("all", 12))
    }
    assert found["mean_gradient_spectrum", 0, "all", 12].leak_auc > 0.97
    assert found["mean_gradient_probe", 5, "all", 12].seeds == 2
    early = found["mean_gradient_spectrum", 0, "some", 1].leak_auc
    assert early < found["mean_gradient_spectrum", 0, "all", 12].leak_auc


def test_an_expensive_attack_looks_at_some_releases_and_has_no_average():
    seen = []

    def slow(gradient):
        seen.append(float(gradient[0, 0]))
        return gradient[:, 0]

    scope = AuditScope(expensive=True, expensive_every=3)
    releases = [release(step, [step, -1], epoch=step) for step in range(7)]
    audit = audit_leak(
        releases,
        GroundTruth(torch.tensor([1, 0])),
        attacks={"slow": Attack(slow, cost="expensive")},
        scope=scope,
    )
    assert seen == [0.0, 3.0, 6.0]
    assert [(m.releases, m.batches) for m in audit.measurements] == [("one", 3)]


@pytest.fixture(scope="module")
def small_batches_of_noise():
    """Releases that know nothing of the labels, in batches with few rows for their width."""
    generator = torch.Generator().manual_seed(11)
    labels = (torch.rand(640, generator=generator) < 0.26).long()
    releases = []
    for step in range(100):
        if step % 10 == 0:
            order = torch.randperm(640, generator=generator).split(64)
        gradient, activation = torch.randn(2, 64, 32, generator=generator)
        releases.append(Release(step, step // 10, order[step % 10], activation, gradient))
    return labels, releases


def test_nobody_finds_labels_in_noise_over_a_training_of_small_batches(small_batches_of_noise):
    labels, releases = small_batches_of_noise
    scope = AuditScope(hints=(0, 1, 5), few_records=True, histories=True)
    audit = audit_leak(releases, GroundTruth(labels), scope=scope)
    tried = [m for m in audit.measurements if m.null_deviation is not None]
    names = {m.attack for m in tried}
    assert {"likelihood_ratio", "likelihood_ratio_sum", "mean_gradient_probe"} <= names
    assert len(tried) > 60
    for found in tried:
        # Of so many measurements, none is this far out in 99 draws of 100.
        assert found.leak_auc < 0.5 + 4 * found.null_deviation, (found.attack, found.releases)


def test_the_likelihood_ratio_finds_labels_where_there_are_some(small_batches_of_noise):
    labels, releases = small_batches_of_noise
    shift = torch.zeros(32)
    shift[0] = 2.0
    told = [
        Release(
            r.step,
            r.epoch,
            r.records,
            r.activation,
            r.gradient + labels[r.records][:, None] * shift,
        )
        for r in releases
    ]
    scope = AuditScope(few_records=True, histories=True)
    attacks = {"likelihood_ratio_sum": HISTORY_ATTACKS["likelihood_ratio_sum"]}
    found = measured(audit_leak(told, GroundTruth(labels), attacks=attacks, scope=scope), "all")
    assert found.leak_auc > 0.9
