"""What the live audit costs of a step of Wide & Deep training, at the default interval.

    python benchmarks/live_audit.py [--batch 1024] [--cut 32] [--rounds 60]

Both halves train in this process without a network, which is the shortest step that there can be;
over a network the share is smaller. The two kinds of steps alternate in rounds, so that a slower or
faster machine meets both alike; the share of processor time is taken in each round.
"""

import argparse
import statistics
import time

import torch
from torch.nn import functional

from cutlayer import Marvell, protect
from cutlayer.audits import LiveLeak
from cutlayer.audits.live.live_leak import LIVE_EVERY, live_attacks
from cutlayer.models import OneHotColumns, WideDeepBottom, WideDeepTop
from cutlayer.transcript import Release


def slots(numbers: int, fields: int, values: int) -> list[tuple[int, int]]:
    """Where the one-hot columns of each field stand, behind the numbers."""
    return [(numbers + i * values, numbers + (i + 1) * values) for i in range(fields)]


def mixed_columns(
    batch: int, numbers: int, fields: int, values: int, generator: torch.Generator
) -> torch.Tensor:
    """Standard normal numbers, then fields of one-hot columns."""
    chosen = torch.randint(values, (batch, fields), generator=generator)
    one_hot = functional.one_hot(chosen, values).float().flatten(1)
    return torch.cat([torch.randn(batch, numbers, generator=generator), one_hot], dim=1)


class Training:
    """One Wide & Deep training on random data, protected by Marvell."""

    def __init__(self, batch: int, cut: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.batch, self.step = batch, 0
        self.features = mixed_columns(batch, 20, 8, 40, generator)
        self.own = mixed_columns(batch, 10, 2, 20, generator)
        self.labels = (torch.rand(batch, generator=generator) < 0.1).long()
        self.bottom = WideDeepBottom(OneHotColumns(340, slots(20, 8, 40)), cut, (64,), generator)
        self.top = WideDeepTop(cut, OneHotColumns(50, slots(10, 2, 20)), (64,), generator)
        parameters = [*self.bottom.parameters(), *self.top.parameters()]
        self.optimizer = torch.optim.Adam(parameters)
        self.protection = Marvell(s=4.0)

    def go_on(self, live: LiveLeak | None) -> None:
        """One step, looked at or not."""
        cut = self.bottom(self.features)
        sent: list[torch.Tensor] = []
        if live is not None:
            cut.register_hook(sent.append)
        activation = protect(cut, self.labels, self.protection)
        clean: list[torch.Tensor] = []
        if live is not None:
            activation.register_hook(clean.append)
        logit = self.top(activation, self.own)
        self.optimizer.zero_grad()
        functional.binary_cross_entropy_with_logits(logit, self.labels.float()).backward()
        self.optimizer.step()
        if live is not None:
            release = Release(self.step, 0, torch.arange(self.batch), cut.detach(), sent[0])
            live.on_release(release, self.labels, clean[0])
        self.step += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--cut", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    training = Training(options.batch, options.cut)
    live = LiveLeak(live_attacks(), generator=torch.Generator())
    for _ in range(20):
        training.go_on(None)
    plain, watched = [], []
    for _ in range(options.rounds):
        for kind, seconds in ((None, plain), (live, watched)):
            began = time.process_time()
            for _ in range(LIVE_EVERY):
                training.go_on(kind)
            seconds.append((time.process_time() - began) / LIVE_EVERY)
    shares = [with_live / without - 1 for without, with_live in zip(plain, watched, strict=True)]
    low, middle, high = statistics.quantiles(shares)
    print(f"Wide & Deep, batch {options.batch}, cut {options.cut}, one thread, Marvell s = 4")
    print(f"step without live audit {1e3 * statistics.median(plain):.2f} ms")
    print(f"step with it, every {LIVE_EVERY}th batch {1e3 * statistics.median(watched):.2f} ms")
    print(
        f"share {middle:+.1%} (limit 5 %), median over {len(shares)} rounds of {LIVE_EVERY} steps "
        f"each without and with; quartiles {low:+.1%} and {high:+.1%}"
    )


if __name__ == "__main__":
    main()
