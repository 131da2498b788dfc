import resource
import socket

import pytest


def pytest_addoption(parser) -> None:
    parser.addoption("--kills", type=int, default=1000, help="in the slow kill tests")
    parser.addoption("--freezes", type=int, default=6, help="of the link between the parties")
    parser.addoption("--soak-seconds", type=float, default=60, help="least length of the soak test")
    parser.addoption("--soak-steps", type=int, default=0, help="least steps of the soak test")


@pytest.fixture
def unused_port():
    """A port on loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def largest_file():
    """Sets how large a file may grow, as a full disk would; lifted at the end."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
