"""What a step costs besides the model: protection, checks, journal, and the way to the peer.

    python benchmarks/step.py [--batch 8192] [--width 128] [--repeats 40] [--folder .]

Medians of wall and CPU time; the parts alternate, so that a busy machine meets all of them alike.
The journal is written to a real disk, in ``--folder``.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from cutlayer import check
from cutlayer.parties import ReleaseJournal
from cutlayer.protections import PROTECTIONS, GradientProtection, parse_protection
from cutlayer.protections.residual import Residual
from cutlayer.protocol import (
    Address,
    Endpoint,
    GrpcConnector,
    GrpcListener,
    Role,
    StreamConnector,
    StreamListener,
    codec,
    create_identity,
    load_identity,
    pair,
)
from cutlayer.protocol.identity import word_of
from cutlayer.protocol.messages import Kind, Message
from cutlayer.rng import SecretNoise, tensor_digest

PROTECTED = ("isotropic:t=1", "max_norm", "marvell:s=4", "residual:sigma=1")
STEP_LIMIT_MS, TRIP_LIMIT_MS = 25.0, 20.0


Taken = tuple[float, float]


def milliseconds(parts: dict[str, Callable[[], object]], repeats: int) -> dict[str, Taken]:
    """Median wall time and CPU time of this process, for each part."""
    taken: dict[str, list[Taken]] = {name: [] for name in parts}
    for _ in range(repeats + 2):
        for name, part in parts.items():
            wall, cpu = time.perf_counter(), time.process_time()
            part()
            times = time.perf_counter() - wall, time.process_time() - cpu
            taken[name].append((1000 * times[0], 1000 * times[1]))
    return {
        name: (
            statistics.median(t[0] for t in times[2:]),
            statistics.median(t[1] for t in times[2:]),
        )
        for name, times in taken.items()
    }


def step_parts(batch: int, width: int, folder: Path) -> dict[str, Callable[[], object]]:
    """The parts of a step that are not the model's."""
    activation, gradient = torch.randn(batch, width), torch.randn(batch, width) / batch
    labels = (torch.rand(batch) < 0.1).long()
    logit = torch.randn(batch)
    journal = ReleaseJournal(folder / "journal", "benchmark")
    journal.bind({"steps_per_epoch": "1"})
    noise = SecretNoise()
    marks = noise.marks(map(str, range(batch)), b"labelling")

    def checks() -> None:
        for message in (activation, gradient):  # one at each party
            check.finite("message", message)
            float(message.abs().amax())

    def digests() -> tuple[bytes, bytes]:
        return tensor_digest(activation), tensor_digest(gradient)

    def journalled() -> None:
        journal.settle(journal.released, bytes(32), bytes(32))

    def protected(text: str) -> Callable[[], object]:
        protection = parse_protection(text, PROTECTIONS)
        if isinstance(protection, Residual):
            deviation = protection.noise_deviation
            return lambda: protection.noisy_residual(
                logit, labels, noise=noise.for_visit(0, marks, deviation)
            )
        if not isinstance(protection, GradientProtection):
            raise TypeError(text)
        return lambda: protection.perturb(
            gradient, labels, noise=noise.for_release(0, gradient, labels)
        )

    return {
        "checks of values, both parties": checks,
        "digests of request and reply": digests,
        "journal entry on disk": journalled,
        **{text: protected(text) for text in PROTECTED},
    }


def endpoint(transport: str, role: Role, port: int, identities: Path) -> Endpoint:
    """Where a party meets the other."""
    address = Address("127.0.0.1", port)
    if transport == "plain":
        return (StreamListener if role is Role.LABEL else StreamConnector)(address)
    identity = load_identity(identities / word_of(role), role)
    if transport == "grpc":
        return (GrpcListener if role is Role.LABEL else GrpcConnector)(address, identity)
    return (StreamListener if role is Role.LABEL else StreamConnector)(address, identity)


def echo(transport: str, port: int, identities: Path) -> None:
    """Send back what comes, until the other end has had enough."""
    with endpoint(transport, Role.NON_LABEL, port, identities) as meeting:
        channel = meeting.meet(deadline=30)
        while True:
            header, payload = channel.receive(lambda _: None, deadline=60)
            if header.kind is Kind.BYE:
                return
            frame = codec.encode(codec.decode(header, payload), "benchmark")
            channel.send(*frame, deadline=60)


def round_trip(transport: str, identities: Path, repeats: int) -> Taken:
    """Median times of 4 MiB to another process and back."""
    frame = codec.encode(Message(Kind.ACTIVATION, tensor=torch.randn(8192, 128)), "benchmark")
    with endpoint(transport, Role.LABEL, 0, identities) as meeting:
        port = meeting.address.port  # type: ignore[attr-defined]
        process = multiprocessing.get_context("spawn").Process(
            target=echo, args=(transport, port, identities)
        )
        process.start()
        channel = meeting.meet(deadline=60)

        def trip() -> None:
            channel.send(*frame, deadline=60)
            channel.receive(lambda _: None, deadline=60)

        taken = milliseconds({"trip": trip}, repeats)["trip"]
        channel.send(*codec.encode(Message(Kind.BYE), "benchmark"), deadline=60)
        process.join()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        taken = milliseconds(step_parts(options.batch, options.width, folder), options.repeats)
        print(f"{options.batch} x {options.width}, one thread: ms of wall time, ms of CPU")
        for name, (wall, cpu) in taken.items():
            print(f"{name:34} {wall:7.2f} {cpu:7.2f}")
        print(f"sum of all checks and one protection, and as a share of {STEP_LIMIT_MS:g} ms")
        for name in PROTECTED:
            parts = [taken[name], *(taken[part] for part in taken if part not in PROTECTED)]
            wall, cpu = (sum(times) for times in zip(*parts, strict=True))
            shares = wall / STEP_LIMIT_MS, cpu / STEP_LIMIT_MS
            print(f"{name:34} {wall:7.2f} {cpu:7.2f}   {shares[0]:.2f} {shares[1]:.2f}")
        for role in Role:
            create_identity(folder / word_of(role), role)
        for role in Role:
            peer = word_of(role.peer)
            pair(folder / word_of(role), folder / peer / f"{peer}.crt")
        trips = {
            name: round_trip(name, folder, options.repeats) for name in ("plain", "tls", "grpc")
        }
    print(
        f"4 MiB to another process and back (goal {TRIP_LIMIT_MS:g} ms), and as multiples of plain"
    )
    for name, (wall, cpu) in trips.items():
        ratio = wall / trips["plain"][0]
        print(f"{name:34} {wall:7.2f} {cpu:7.2f}   {ratio:.2f}  (CPU: one of two processes)")


if __name__ == "__main__":
    main()
