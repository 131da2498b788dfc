"""How long a tensor takes to the peer and back, over each transport, side by side.

Two processes on this machine. A round trip sends a float32 tensor of N bytes and gets one of N
bytes back, from tensor to tensor. `limit` is plain TCP by blocking sockets without any framing or
transport of cutlayer: what the machine itself allows. CPU is of both processes together.

    python benchmarks/transports.py --sizes 64KiB 4MiB --trips 50
"""

import argparse
import multiprocessing
import platform
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.queues import Queue
from pathlib import Path

import numpy as np
import torch

from cutlayer.protocol import (
    Address,
    Endpoint,
    GrpcConnector,
    GrpcListener,
    Identity,
    Kind,
    Message,
    Role,
    StreamConnector,
    StreamListener,
    Transport,
    create_identity,
    load_identity,
    pair,
)
from cutlayer.protocol.codec import decode, encode

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
WARM_UP = 3
SPAWN = multiprocessing.get_context("spawn")  # gRPC does not survive a fork
Exchange = Callable[[torch.Tensor], torch.Tensor]


def identities(folder: Path) -> dict[Role, Path]:
    """Two parties that trust each other."""
    folders = {role: folder / role.name for role in Role}
    for role, own in folders.items():
        create_identity(own, role)
    for role, own in folders.items():
        pair(own, next(path for path in folders[role.peer].glob("*.crt") if path.stem != "peer"))
    return folders


def listener(name: str, folder: Path) -> GrpcListener | StreamListener:
    address = Address("127.0.0.1", 0)
    if name == "plain":
        return StreamListener(address)
    identity = load_identity(folder, Role.LABEL)
    return GrpcListener(address, identity) if name == "grpc" else StreamListener(address, identity)


def connector(name: str, address: Address, folder: Path) -> Endpoint:
    if name == "plain":
        return StreamConnector(address)
    identity: Identity = load_identity(folder, Role.NON_LABEL)
    if name == "grpc":
        return GrpcConnector(address, identity)
    return StreamConnector(address, identity)


def send(transport: Transport, tensor: torch.Tensor) -> None:
    transport.send(*encode(Message(Kind.GRADIENT, 0, tensor), "benchmark"), deadline=60)


def receive(transport: Transport) -> torch.Tensor:
    message = decode(*transport.receive(lambda _: None, deadline=60))
    if message.tensor is None:
        raise ValueError("a message without a tensor")
    return message.tensor


def echo_by_transport(name: str, folder: Path, told: "Queue[float]") -> None:
    """The other process: answer until the connection ends."""
    torch.set_num_threads(1)
    with listener(name, folder) as listening:
        told.put(listening.address.port)
        transport = listening.meet(deadline=60)
        began = time.process_time()
        for _ in range(trips_announced(transport)):
            send(transport, receive(transport))
        told.put(time.process_time() - began)
        receive(transport)  # stay until the other side has everything


def trips_announced(transport: Transport) -> int:
    return int(receive(transport)[0, 0].item())


def measured_by_transport(
    name: str, folders: dict[Role, Path], tensor: torch.Tensor, trips: int
) -> tuple[list[float], float]:
    told = SPAWN.Queue()
    other = SPAWN.Process(target=echo_by_transport, args=(name, folders[Role.LABEL], told))
    other.start()
    address = Address("127.0.0.1", int(told.get(timeout=60)))
    with connector(name, address, folders[Role.NON_LABEL]) as connecting:
        transport = connecting.meet(deadline=60)
        send(transport, torch.tensor([[float(WARM_UP + trips)]]))

        def exchange(sent: torch.Tensor) -> torch.Tensor:
            send(transport, sent)
            return receive(transport)

        seconds, cpu = timed(exchange, tensor, trips)
        cpu += told.get(timeout=60)
        send(transport, torch.ones(1, 1))
        other.join()
    return seconds, cpu


def echo_by_socket(size: int, trips: int, told: "Queue[float]") -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told.put(listening.getsockname()[1])
        connected, _ = listening.accept()
    with closing(connected):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.process_time()
        for _ in range(trips):
            connected.sendall(read_exactly(connected, size))
        told.put(time.process_time() - began)


def measured_by_socket(tensor: torch.Tensor, trips: int) -> tuple[list[float], float]:
    told = SPAWN.Queue()
    size = tensor.nbytes
    other = SPAWN.Process(target=echo_by_socket, args=(size, WARM_UP + trips, told))
    other.start()
    with socket.create_connection(("127.0.0.1", int(told.get(timeout=60)))) as connected:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def exchange(sent: torch.Tensor) -> torch.Tensor:
            connected.sendall(sent.numpy().data.cast("B"))
            back = np.frombuffer(read_exactly(connected, size), dtype=np.float32)
            return torch.from_numpy(back).reshape(sent.shape)

        seconds, cpu = timed(exchange, tensor, trips)
        cpu += told.get(timeout=60)
    other.join()
    return seconds, cpu


def read_exactly(connected: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view.nbytes:
        count = connected.recv_into(view)
        if not count:
            raise ConnectionError("the other process has ended")
        view = view[count:]
    return data


def timed(exchange: Exchange, tensor: torch.Tensor, trips: int) -> tuple[list[float], float]:
    """Wall seconds of each round trip, and this process's CPU seconds of all with the warm-up."""
    seconds = []
    began_cpu = time.process_time()
    for number in range(WARM_UP + trips):
        began = time.perf_counter()
        back = exchange(tensor)
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - began)
    cpu = time.process_time() - began_cpu
    if not torch.equal(back, tensor):
        raise ValueError("another tensor came back")
    return seconds, cpu


def parse_size(text: str) -> int:
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    raise argparse.ArgumentTypeError(f"{text!r} is no size such as 64KiB or 4MiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["64KiB", "512KiB", "4MiB", "32MiB"])
    parser.add_argument("--trips", type=int, default=0, help="0: as fits the size")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{platform.machine()}, {multiprocessing.cpu_count()} CPUs, Linux {platform.release()}")
    print(
        f"{'size':>8} {'transport':>10} {'median ms':>10} {'p95 ms':>8} {'MiB/s':>7} "
        f"{'CPU ms':>8} {'CPU ms/MiB':>10} {'x limit':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        folders = identities(Path(folder))
        for text in options.sizes:
            size = parse_size(text)
            trips = options.trips or max(10, min(200, (256 << 20) // size))
            tensor = torch.randn(size // 512, 128, generator=torch.Generator())
            limit = 0.0
            for name in ("limit", "plain", "tls", "grpc"):
                if name == "limit":
                    seconds, cpu = measured_by_socket(tensor, trips)
                else:
                    seconds, cpu = measured_by_transport(name, folders, tensor, trips)
                median = statistics.median(seconds)
                limit = limit or median
                p95 = sorted(seconds)[int(0.95 * len(seconds))]
                each = 1e3 * cpu / (WARM_UP + trips)
                mebibytes = 2 * size / (1 << 20)  # there and back
                print(
                    f"{text:>8} {name:>10} {1e3 * median:10.2f} {1e3 * p95:8.2f} "
                    f"{mebibytes / median:7.0f} {each:8.2f} {each / mebibytes:10.2f} "
                    f"{median / limit:8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
