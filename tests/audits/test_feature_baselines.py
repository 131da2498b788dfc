import pytest
import torch

from cutlayer.audits import AuditScope, GroundTruth
from cutlayer.audits.feature_baselines import feature_baselines

SCOPE = AuditScope(hints=(0, 1, 20), seeds=3, few_records=True)


def test_the_prior_orders_nothing():
    (prior,) = feature_baselines(GroundTruth(torch.tensor([1, 0, 0])), None, SCOPE)
    assert (prior.name, prior.leak_auc, prior.target) == ("prior", 0.5, "labels")


def test_features_that_are_the_label_tell_it_all_and_noise_tells_nothing():
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(2000, generator=generator) < 0.3).long()
    noise = torch.randn(2000, 3, generator=generator)
    truth = GroundTruth(labels)
    for features, expected in ((torch.cat([10.0 * labels[:, None], noise], 1), 1.0), (noise, 0.5)):
        found = {(k.name, k.hints): k for k in feature_baselines(truth, features, SCOPE)}
        assert set(found) == {
            ("prior", 0), ("features", 1), ("features", 20), ("features_half", 0),
        }  # fmt: skip
        # Mann and Whitney's deviation for 300 positives and 700 negatives of a half is .020.
        assert found["features_half", 0].leak_auc == pytest.approx(expected, abs=5 * 0.02)
    assert found["features", 20].interval.low <= found["features", 20].leak_auc


def test_half_of_all_labels_is_learnt_from_in_every_scope():
    labels = torch.arange(60) % 2
    features = labels[:, None] + 0.0
    found = feature_baselines(GroundTruth(labels), features, AuditScope())
    assert [(k.name, k.leak_auc) for k in found] == [("prior", 0.5), ("features_half", 1.0)]


def test_features_cannot_tell_a_coin():
    generator = torch.Generator().manual_seed(1)
    coins = torch.randint(2, (3000,), generator=generator)
    canaries = torch.arange(3000) < 1500
    natural = torch.randint(2, (3000,), generator=generator)
    labels = torch.where(canaries, coins, natural)
    found = feature_baselines(GroundTruth(labels, canaries), natural[:, None].float(), SCOPE)
    for known in found:
        assert known.target == "canaries"
        assert abs(known.leak_auc - 0.5) < 5 * 0.021  # sqrt(751 / (12 x 375 x 375)) for a half


def test_a_lone_class_leaves_the_classifier_out():
    truth = GroundTruth(torch.zeros(10))
    found = feature_baselines(truth, torch.randn(10, 2, generator=torch.Generator()), SCOPE)
    assert [known.name for known in found] == ["prior"]
