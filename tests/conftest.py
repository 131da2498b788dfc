import socket

import pytest


@pytest.fixture
def unused_port():
    """A port on loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
