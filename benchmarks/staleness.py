"""What staleness costs in quality: test AUC of the shipped example at S = 0, 1, 3, 7.

    python benchmarks/staleness.py [--rates 0.002 0.001] [--splits 5]

The Caravan data with the settings of `cutlayer demo` and no protection, both parties in one
process. Differences are taken split by split, since the splits differ more than the schedules do.
"""

import argparse
import statistics
import sys
import threading
from dataclasses import replace
from math import sqrt

import torch

from cutlayer.data import DATASETS
from cutlayer.data.vertical_data import VerticalData
from cutlayer.experiments.plan import Plan, Training
from cutlayer.experiments.two_parties import make_bottom, make_optimizer
from cutlayer.models import Top
from cutlayer.parties import LabelParty, NonLabelParty
from cutlayer.protections import NoNoise
from cutlayer.protocol.transports.in_memory import in_memory_pair
from cutlayer.rng import SecretNoise

ALLOWED_LOSS = 0.002
GATED = 3
"""Up to this staleness a larger loss ends the script with status 1."""


def test_auc(plan: Plan, training: Training, data: VerticalData, staleness: int) -> float:
    """Train once, and measure on the records that were kept for the test."""
    terms = replace(plan.terms(training), staleness=staleness)
    label = LabelParty(
        data.label_party,
        terms,
        NoNoise(),
        lambda name, cut, own: Top(
            cut, own.width, [plan.hidden_width], plan.generator(training, name)
        ),
        make_optimizer(plan),
        noise=SecretNoise(),
    )
    other = NonLabelParty(
        data.non_label_party,
        terms,
        lambda own: make_bottom(plan, training, own.width),
        make_optimizer(plan),
    )
    here, there = in_memory_pair()
    thread = threading.Thread(target=other.run, args=(there,))
    thread.start()
    half = label.run(here)
    thread.join()
    return half.test.auc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", nargs="+", type=float, default=[0.002, 0.001])
    parser.add_argument("--staleness", nargs="+", type=int, default=[1, 3, 7])
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    for rate in options.rates:
        plan = Plan(learning_rate=rate, splits=options.splits, baselines=(), simulated=True)
        data = DATASETS[plan.data]().load()
        trainings = [
            Training("no_noise", split, 0, plan.epochs, audited=False, name=f"split-{split}")
            for split in range(options.splits)
        ]
        lock_step = [test_auc(plan, training, data, 0) for training in trainings]
        print(
            f"learning rate {rate:g}: S = 0, test AUC {statistics.mean(lock_step):.4f}", flush=True
        )
        for staleness in options.staleness:
            aucs = [test_auc(plan, training, data, staleness) for training in trainings]
            changes = [stale - prompt for stale, prompt in zip(aucs, lock_step, strict=True)]
            change = statistics.mean(changes)
            error = statistics.stdev(changes) / sqrt(len(changes)) if len(changes) > 1 else 0.0
            failed |= staleness <= GATED and change < -ALLOWED_LOSS
            verdict = "within" if change >= -ALLOWED_LOSS else "beyond"
            print(
                f"    S = {staleness}: {statistics.mean(aucs):.4f}, change {change:+.4f} "
                f"+- {error:.4f}, {verdict} the allowed loss of {ALLOWED_LOSS}",
                flush=True,
            )
    sys.exit(failed)


if __name__ == "__main__":
    main()
