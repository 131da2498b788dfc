"""What the non-label party knows without any message: the baselines beside every attack."""

import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cutlayer.audits.attack_tally import Target, measured
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.known_records import HintBank, half_known
from cutlayer.audits.scope import AuditScope
from cutlayer.leakage.auc_interval import Interval
from cutlayer.leakage.leak_auc import symmetrised

OwnKnowledgeName = Literal["prior", "features", "features_half"]


@dataclass(frozen=True)
class FeatureBaseline:
    """How well somebody orders the labels who was sent nothing."""

    name: OwnKnowledgeName
    """``prior``: knows the share of positives. ``features``: a logistic regression on the
    non-label party's features, learnt from a few known labels. ``features_half``: learnt from half
    of all labels, and judged on the other half."""
    target: Target
    hints: int
    """Known records of each class; 0 for the others."""
    leak_auc: float
    """Symmetrised; the median over the seeds."""
    interval: Interval | None
    true_positive_rate: float | None


def feature_baselines(
    truth: GroundTruth, features: Tensor | None, scope: AuditScope
) -> list[FeatureBaseline]:
    """Measure the baselines.

    Whoever knows the prior alone gives every record the same score, which orders nothing: his leak
    AUC is 0.5 by definition, however rare the positives are.

    Args:
        truth: labels and canaries; with canaries, only they are ordered.
        features: the non-label party's model inputs, ``(records, ...)``; ``None`` if unknown.
        scope: counts of known records, and how many choices of them.

    Returns:
        The prior, then features by growing knowledge; those that cannot be measured are left out.
    """
    target: Target = "labels" if truth.canaries is None else "canaries"
    found = [FeatureBaseline("prior", target, 0, 0.5, None, None)]
    if features is None:
        return found
    flat = features.reshape(len(features), -1).double()
    spread = flat.std(dim=0)
    standard = (flat - flat.mean(dim=0)) / torch.where(spread > 0, spread, 1.0)
    counts = sorted({hints for hints in scope.hints if hints}) if scope.few_records else []
    for hints in counts:
        masks = [HintBank(truth, hints, seed).known for seed in range(scope.seeds)]
        found += _median("features", target, hints, standard, truth, masks)
    # In every scope: a reading above a proven bound cannot be understood without it.
    masks = [half_known(truth, seed) >= 0 for seed in range(scope.seeds)]
    found += _median("features_half", target, 0, standard, truth, masks)
    return found


def _median(
    name: OwnKnowledgeName,
    target: Target,
    hints: int,
    features: Tensor,
    truth: GroundTruth,
    masks: list[Tensor],
) -> list[FeatureBaseline]:
    """The classifier of the middle choice of known records; empty where none can be learnt."""
    reached = []
    for known in masks:
        labels = truth.labels[: len(features)]
        mask = known[: len(features)]
        if len(torch.unique(labels[mask])) < 2:
            continue
        scores = _scores(features[mask], labels[mask], features)
        found = measured(scores, labels, truth.audited[: len(features)] & ~mask)
        if found is not None:
            reached.append(found)
    if not reached:
        return []
    middle = sorted(reached, key=lambda found: symmetrised(found.auc))[len(reached) // 2]
    leak, rate = symmetrised(middle.auc), middle.true_positive_rate
    return [FeatureBaseline(name, target, hints, leak, middle.interval, rate)]


def _scores(known: Tensor, labels: Tensor, features: Tensor) -> Tensor:
    """Log-odds of every record from a classifier of the known ones."""
    from sklearn.exceptions import ConvergenceWarning  # here: it takes long to load
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few more steps change no order
        model.fit(known.numpy(), labels.numpy())
    return torch.from_numpy(model.decision_function(features.numpy()))
