"""How long a full audit takes of a transcript of 30,000 records, by what it is made of.

    python benchmarks/audit_time.py [--epochs 20] [--records 30000] [--seeds 3]

The transcript is synthetic (rank-one gradients with noise, a row a record and epoch); time does not
depend on what the rows say. Prints wall and processor seconds, at the cut, on one thread.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from cutlayer.audits import Truth
from cutlayer.audits.recorded_training import RecordedTraining, audit_training
from cutlayer.audits.scope import FULL_SCOPE
from cutlayer.transcript import Release

WIDTH, BATCH = 32, 512


class Sent:
    """A transcript that is made as it is read."""

    def __init__(self, labels: torch.Tensor, epochs: int) -> None:
        self.labels, self.epochs = labels, epochs
        self.per_epoch = len(labels) // BATCH

    def __len__(self) -> int:
        return self.per_epoch * self.epochs

    def __iter__(self) -> Iterator[Release]:
        generator = torch.Generator().manual_seed(0)
        direction = torch.randn(WIDTH, generator=generator)
        for epoch in range(self.epochs):
            order = torch.randperm(len(self.labels), generator=generator)
            for batch in range(self.per_epoch):
                records = order[batch * BATCH : (batch + 1) * BATCH]
                residual = 0.2 - self.labels[records].float()
                noise = torch.randn(BATCH, WIDTH, generator=generator)
                gradient = residual[:, None] * direction + 0.5 * noise
                activation = torch.randn(BATCH, WIDTH, generator=generator)
                step = epoch * self.per_epoch + batch
                yield Release(step, epoch, records, activation, gradient)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=FULL_SCOPE.seeds)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    labels = (torch.rand(options.records, generator=generator) < 0.2).long()
    training = RecordedTraining(Sent(labels, options.epochs), Truth(labels), {})
    scope = replace(FULL_SCOPE, seeds=options.seeds)
    began, worked = time.perf_counter(), time.process_time()
    audit = audit_training(training, scope=scope)
    wall, cpu = time.perf_counter() - began, time.process_time() - worked
    print(
        f"{options.records:,} records, {options.epochs} epochs, {audit.leak.releases:,} releases, "
        f"{len(audit.leak.measurements)} measurements: {wall:.0f} s, {cpu:.0f} s of one processor"
    )


if __name__ == "__main__":
    main()
