"""How long `cutlayer audit` takes of a label party's recording of 30,000 records and 20 epochs.

    python benchmarks/audit_time.py [--epochs 20] [--records 30000] [--seeds 3] [--workers 2]

The recording is synthetic (rank-one gradients with noise, a row a record and epoch); time does not
depend on what the rows say. It is written to a run folder as a party writes it, and the command
reads it from there. Prints wall and processor seconds and the memory of the largest process.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from cutlayer.audits import ReleaseRecorder
from cutlayer.audits.scope import FULL_SCOPE
from cutlayer.audits.worker_process import available_cores
from cutlayer.findings.document import read_findings
from cutlayer.runs.recording import MESSAGES, RecordingContext
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


def record(folder: Path, records: int, epochs: int) -> int:
    """Write a run folder as a label party's run leaves it; the number of releases."""
    generator = torch.Generator().manual_seed(1)
    labels = (torch.rand(records, generator=generator) < 0.2).long()
    sent = Sent(labels, epochs)
    ids = [str(record) for record in range(records)]
    with ReleaseRecorder(folder / MESSAGES, ids, generator=generator) as recorder:
        for release in sent:
            recorder.on_release(release, labels[release.records], release.gradient)
    context = RecordingContext(
        run="audit_time",
        protection="no_noise",
        epochs=epochs,
        may_stop=False,
        train_records=records,
        test_records=0,
        positive_share=float(labels.double().mean()),
    )
    path = folder / MESSAGES / "recording.json"
    path.write_text(context.model_dump_json(), encoding="utf-8")
    return len(sent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=FULL_SCOPE.seeds)
    parser.add_argument("--workers", type=int, default=available_cores())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        releases = record(folder, options.records, options.epochs)
        command = [sys.executable, "-m", "cutlayer", "audit", str(folder)]
        command += ["--seeds", str(options.seeds), "--workers", str(options.workers)]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - began
        rows = read_findings(folder / "findings.json").rows
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{options.records:,} records, {options.epochs} epochs, {releases:,} releases, "
        f"{len(rows)} measurements, {options.workers} workers: {wall:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.0f} s of processors, largest process "
        f"{used.ru_maxrss / 1024:.0f} MiB"
    )


if __name__ == "__main__":
    main()
