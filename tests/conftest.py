import socket

import pytest


def pytest_addoption(parser) -> None:
    parser.addoption("--kills", type=int, default=1000, help="in the slow kill tests")
    parser.addoption("--freezes", type=int, default=6, help="of the link between the parties")
    parser.addoption("--soak-seconds", type=float, default=60, help="length of the soak test")


@pytest.fixture
def unused_port():
    """A port on loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
