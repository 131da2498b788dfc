"""What distance costs: ms per training step by round trip, staleness and transport.

    sudo python benchmarks/latency.py [--steps 100] [--transports tls grpc]

Two processes train at the ends of a link of 500 Mbit/s between two network namespaces (see
tests/faults/wan.py), with messages of 512 KiB: 1024 records of width 128. Needs root. Each figure
is the time between two entries of the journal, over the steps between two checkpoints, which empty
the pipeline. The ratio is to the lock-step of the same round trip.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.faults.parties import Plan
from tests.faults.rounds import Round
from tests.faults.wan import ADDRESS, FarLink
from tests.protocol.networks import make_identities

BATCH, WIDTH = 1024, 128
SKIPPED = 20
"""Steps until TCP's window has opened."""
TCP = {"net.ipv4.tcp_slow_start_after_idle": "0"}


def milliseconds_per_step(plan: Plan, steps: int) -> float:
    """Time per step of one run, without its first steps."""
    playing = Round(plan)
    try:
        playing.wait_for(lambda: playing.steps >= SKIPPED)
        began, first = time.perf_counter(), playing.steps
        playing.wait_for(lambda: playing.steps >= steps - 1)
        return 1000 * (time.perf_counter() - began) / (playing.steps - first)
    finally:
        playing.end()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--transports", nargs="+", default=["tls", "grpc"])
    parser.add_argument("--round-trips", nargs="+", type=int, default=[0, 10, 50, 100])
    parser.add_argument("--staleness", nargs="+", type=int, default=[0, 1, 3, 7])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make_identities(folder / "identities")
        plan = Plan(
            folder="",
            port=7700,
            host=ADDRESS["label"],
            identities=str(folder / "identities"),
            records=BATCH * options.steps * 4 // 3 + 4 * BATCH,  # a fourth is kept for the test
            batch_size=BATCH,
            cut_width=WIDTH,
            epochs=1,
            checkpoint_every=options.steps,
        )
        for transport in options.transports:
            for milliseconds in options.round_trips:
                with FarLink(round_trip=milliseconds / 1000, settings=TCP) as link:
                    lock_step = None
                    for staleness in options.staleness:
                        name = f"{transport}-{milliseconds}-{staleness}"
                        settings = {"transport": transport, "staleness": staleness}
                        one = replace(plan, folder=str(folder / name), link=link.name, **settings)
                        taken = milliseconds_per_step(one, options.steps)
                        lock_step = lock_step or taken
                        print(
                            f"{transport:5} RTT {milliseconds:3} ms  S = {staleness}  "
                            f"{taken:7.1f} ms a step  {lock_step / taken:.2f} x lock-step",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
