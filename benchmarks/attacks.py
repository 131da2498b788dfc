"""What each attack costs: one release, and the whole training of many records.

    python benchmarks/attacks.py --records 30000 --epochs 20

Attacks on one release are timed on some releases. A history is timed on one whole epoch, so that
every record has a row, and its cost multiplied by the epochs; its end is timed once, in full.
"""

import argparse
import time
from collections.abc import Callable

import torch

from cutlayer.attacks import (
    ATTACKS,
    HISTORY_ATTACKS,
    WITHHELD,
    ClassModel,
    SideKnowledge,
)
from cutlayer.transcript import Release


def main() -> None:
    """Print one table for each kind of attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=32)
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(options.records, generator=generator) < 0.2).long()
    order = torch.randperm(options.records, generator=generator)
    releases = [
        release(step, records, labels, options.width, generator)
        for step, records in enumerate(order.split(options.batch))
    ]
    per_training = len(releases) * options.epochs
    print(f"{options.records} records, {options.epochs} epochs, {per_training} releases of ")
    print(f"{options.batch} rows, width {options.width}, {torch.get_num_threads()} threads\n")
    total = 0.0
    print(f"{'attack on one release':28} {'ms':>8} {'s a training':>13}")
    for name, attack in ATTACKS.items():
        timed = releases[: 20 if attack.cost == "cheap" else 2]
        knowledge = [knowledge_of(sent, labels[sent.records]) for sent in timed]
        attack.score(timed[0], knowledge[0])
        seconds = clock(
            lambda a=attack, k=knowledge, t=timed: [
                a.score(sent, known) for sent, known in zip(t, k, strict=True)
            ]
        ) / len(timed)
        whole = seconds * per_training
        total += whole if attack.cost == "cheap" else 0.0
        print(f"{name:28} {1e3 * seconds:8.2f} {whole:13.1f}  {attack.cost}")
    print(f"{'all cheap ones':28} {'':8} {total:13.1f}\n")
    total = 0.0
    print(f"{'attack on a whole training':28} {'ms':>8} {'end s':>8} {'s a training':>13}")
    for name, attack in HISTORY_ATTACKS.items():
        if attack.average_of is not None:
            continue
        run = attack.start(options.records)
        knowledge = [knowledge_of(sent, labels[sent.records]) for sent in releases]
        observed = clock(
            lambda r=run, k=knowledge: [
                r.observe(sent, known) for sent, known in zip(releases, k, strict=True)
            ]
        )
        told = torch.where(torch.arange(options.records) % 2 == 0, labels, WITHHELD)
        end = clock(lambda r=run, t=told: r.scores(SideKnowledge(known_labels=t, prior=0.2)))
        whole = observed * options.epochs + end
        total += whole
        milliseconds = 1e3 * observed / len(releases)
        print(f"{name:28} {milliseconds:8.2f} {end:8.2f} {whole:13.1f}  {attack.cost}")
    print(f"{'all, without plain averages':28} {'':8} {'':8} {total:13.1f}")


def release(
    step: int, records: torch.Tensor, labels: torch.Tensor, width: int, generator: torch.Generator
) -> Release:
    """Noisy gradients of two classes."""
    noise = torch.randn(len(records), width, generator=generator)
    return Release(step, 0, records, noise.clone(), (0.2 - labels[records])[:, None] + noise)


def knowledge_of(sent: Release, labels: torch.Tensor) -> SideKnowledge:
    """Five hints of each class, half of the labels, and a class model."""
    known = torch.cat([(labels == c).nonzero()[:5, 0] for c in (0, 1)])
    width = sent.gradient.shape[1]
    return SideKnowledge(
        hint=sent.gradient[known[-1]],
        hint_gradients=sent.gradient[known],
        hint_activations=sent.activation[known],
        hint_labels=labels[known],
        prior=0.2,
        known_labels=torch.where(torch.arange(len(labels)) % 2 == 0, labels, WITHHELD),
        class_model=ClassModel(
            -0.8 * torch.ones(width), 0.2 * torch.ones(width), 1.0, 1.0, 1.0, 1.0
        ),
    )


def clock(run: Callable[[], object]) -> float:
    """CPU seconds that a call takes: other work on the machine can only add to them."""
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    main()
