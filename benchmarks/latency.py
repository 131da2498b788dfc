"""What distance costs: ms per update by round trip, staleness, micro-batches and transport.

    sudo python benchmarks/latency.py [--updates 100] [--transports tls grpc]

Two processes train at the ends of a link of 500 Mbit/s between two network namespaces (see
tests/faults/wan.py), with batches of 512 KiB: 1024 records of width 128. Needs root. Each figure
is the time between the journal's entries for two updates, over the updates between two checkpoints,
which empty the pipeline. The ratio is to the lock-step of the same round trip.
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
"""Updates until TCP's window has opened."""
TCP = {"net.ipv4.tcp_slow_start_after_idle": "0"}


def milliseconds_per_update(plan: Plan, updates: int) -> float:
    """Time per update of one run, without its first updates."""
    playing, messages = Round(plan), plan.micro_batches
    try:
        playing.wait_for(lambda: playing.steps >= SKIPPED * messages)
        began, first = time.perf_counter(), playing.steps
        playing.wait_for(lambda: playing.steps >= (updates - 1) * messages)
        return 1000 * (time.perf_counter() - began) / (playing.steps - first) * messages
    finally:
        playing.end()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--transports", nargs="+", default=["tls", "grpc"])
    parser.add_argument("--round-trips", nargs="+", type=int, default=[0, 10, 50, 100])
    parser.add_argument("--staleness", nargs="+", type=int, default=[0, 1, 3, 7])
    parser.add_argument("--micro-batches", nargs="+", type=int, default=[4], help="with S = 0")
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
            records=BATCH * options.updates * 4 // 3 + 4 * BATCH,  # a fourth is kept for the test
            batch_size=BATCH,
            cut_width=WIDTH,
            epochs=1,
            checkpoint_every=options.updates,
        )
        schedules = [(staleness, 1) for staleness in options.staleness]
        schedules[1:1] = [(0, micro_batches) for micro_batches in options.micro_batches]
        for transport in options.transports:
            for milliseconds in options.round_trips:
                with FarLink(round_trip=milliseconds / 1000, settings=TCP) as link:
                    lock_step = None
                    for staleness, micro_batches in schedules:
                        name = f"{transport}-{milliseconds}-{staleness}-{micro_batches}"
                        one = replace(
                            plan,
                            folder=str(folder / name),
                            link=link.name,
                            transport=transport,
                            staleness=staleness,
                            micro_batches=micro_batches,
                        )
                        taken = milliseconds_per_update(one, options.updates)
                        lock_step = lock_step or taken
                        print(
                            f"{transport:5} RTT {milliseconds:3} ms  S = {staleness}  "
                            f"m = {micro_batches}  {taken:7.1f} ms an update  "
                            f"{lock_step / taken:.2f} x lock-step",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
