import os
import random
import resource
import socket
from collections.abc import Iterator

import pytest


def pytest_addoption(parser) -> None:
    parser.addoption("--kills", type=int, default=1000, help="in the slow kill tests")
    parser.addoption("--freezes", type=int, default=6, help="of the link between the parties")
    parser.addoption("--soak-seconds", type=float, default=60, help="least length of the soak test")
    parser.addoption("--soak-steps", type=int, default=0, help="least steps of the soak test")


def _ports() -> Iterator[int]:
    """Ports below those that systems lend, no two alike, and others for each worker process.

    A port that the system lends for a moment may go to another worker before it is used.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    of_worker = list(range(10_000 + 1_000 * (worker % 20), 11_000 + 1_000 * (worker % 20)))
    random.SystemRandom().shuffle(of_worker)
    for port in of_worker:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        yield port


_PORTS = _ports()


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    return next(_PORTS)


@pytest.fixture
def unused_port():
    """A port on loopback that nobody listens on."""
    return free_port()


@pytest.fixture
def largest_file():
    """Sets how large a file may grow, as a full disk would; lifted at the end."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
