"""What a private alignment costs: `align.py --ids 100000`, both parties on this machine.

Two processes align over plain TCP on loopback, half of the ids shared. Printed beside it: what the
operations in the group alone would take, measured in the same minute on one core. Each party
hashes each of its ids to the group, and multiplies once for each id of its own and of the peer.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from cutlayer.alignment.ristretto import multiplied, point_of, random_scalar
from cutlayer.data import TextSequence
from cutlayer.parties import Terms
from cutlayer.parties.private_alignment import align_privately
from cutlayer.protocol import Role, Session, StreamConnector, StreamListener

SAMPLE = 4_000
TERMS = Terms("bench", "bench", "no_noise", mode="alignment", alignment="private")


def peak_mib() -> float:
    """The most memory that this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def microseconds_of_operations() -> tuple[float, float]:
    """CPU time of one hash to the group, and of one multiplication."""
    texts = [f"u{i:011d}".encode() for i in range(SAMPLE)]
    begin = time.process_time()
    points = [point_of(text) for text in texts]
    hashed = time.process_time()
    multiplied(random_scalar(), np.frombuffer(b"".join(points), np.uint8).reshape(-1, 32))
    end = time.process_time()
    return (hashed - begin) / SAMPLE * 1e6, (end - hashed) / SAMPLE * 1e6


def party(role: Role, count: int, pipe: Connection) -> None:
    """One party, in a process of its own."""
    first = 0 if role is Role.LABEL else count // 2
    ids = TextSequence([f"u{i:011d}" for i in range(first, first + count)])
    if role is Role.LABEL:
        endpoint: StreamListener | StreamConnector = StreamListener()
        pipe.send(endpoint.address)
    else:
        endpoint = StreamConnector(pipe.recv())
    transport = endpoint.meet(deadline=60)
    before = peak_mib()
    wall, cpu = time.perf_counter(), time.process_time()
    with Session(role, transport, run=TERMS.run) as session:
        aligned = align_privately(session, TERMS, ids)
    found = {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "shared": len(aligned.ids),
        "sent_mib": transport.traffic.bytes_sent / 2**20,
        "before_mib": before,
        "peak_mib": peak_mib(),
    }
    endpoint.close()
    pipe.send(json.dumps(found))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--ids", type=int, default=100_000)
    count = options.parse_args().ids
    context = multiprocessing.get_context("spawn")
    ends = {role: context.Pipe() for role in Role}
    parties = [context.Process(target=party, args=(role, count, ends[role][1])) for role in Role]
    for process in parties:
        process.start()
    for _, theirs in ends.values():
        theirs.close()  # so that a party that fails is noticed
    ends[Role.NON_LABEL][0].send(ends[Role.LABEL][0].recv())
    found = {role: json.loads(ends[role][0].recv()) for role in Role}
    for process in parties:
        process.join()
    hashing, multiplying = microseconds_of_operations()
    bare = count * (hashing + 2 * multiplying) / 1e6
    print(f"{count:,} ids at each party, {found[Role.LABEL]['shared']:,} shared.")
    print(
        f"In the group alone: {hashing:.1f} us a hash, {multiplying:.1f} us a multiplication: "
        f"{bare:.1f} s of CPU a party."
    )
    for role, one in found.items():
        print(
            f"{role.value}: {one['seconds']:.1f} s, of CPU {one['cpu_seconds']:.1f} s "
            f"({one['cpu_seconds'] / bare:.2f} x the group alone), {one['sent_mib']:.1f} MiB sent, "
            f"peak memory {one['peak_mib']:,.0f} MiB, of which {one['before_mib']:,.0f} before."
        )


if __name__ == "__main__":
    main()
