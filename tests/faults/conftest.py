"""What all fault tests share: folders in memory, identities, and a table of figures at the end."""

import os
import random
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.parties import Plan
from tests.faults.wan import FarLink
from tests.fork_server import Untraced
from tests.protocol.networks import make_identities

_FIGURES = pytest.StashKey[list[tuple[str, str, str]]]()


@pytest.fixture(scope="session", autouse=True)
def _server() -> None:
    """Let the server that parties fork from load torch before anybody looks at the clock."""
    first = Untraced(target=os.getpid)
    first.start()
    first.join()


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where there is one: a SIGKILL loses nothing that was written to it."""
    memory = Path("/dev/shm")  # noqa: S108  a folder of its own is made inside
    if not memory.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="cutlayer-", dir=memory))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def plan(folder, unused_port) -> Plan:
    """A small run over plain TCP."""
    return Plan(folder=str(folder / "reference"), port=unused_port)


@pytest.fixture(scope="session")
def identities(tmp_path_factory) -> str:
    """Identities of two parties that have paired."""
    made = tmp_path_factory.mktemp("identities")
    make_identities(made)
    return str(made)


@pytest.fixture
def far_link():
    """Makes links between two simulated machines, and takes them down."""
    with ExitStack() as links:

        def make(**options: float) -> FarLink:
            try:
                return links.enter_context(FarLink(**options))
            except OSError as error:
                pytest.skip(f"no network namespaces and TUN devices here: {error}")

        yield make


@pytest.fixture
def seed() -> int:
    """Another one each time; told where a test fails."""
    drawn = random.SystemRandom().randrange(1 << 32)
    print(f"seed {drawn}")
    return drawn


@pytest.fixture
def figure(request):
    """Takes a figure of the acceptance table, to be printed beside its goal."""

    def note(what: str, value: str, goal: str = "") -> None:
        request.config.stash.setdefault(_FIGURES, []).append((what, value, goal))

    return note


def pytest_terminal_summary(terminalreporter, config) -> None:
    figures = config.stash.get(_FIGURES, [])
    if figures:
        terminalreporter.section("figures")
    for what, value, goal in figures:
        terminalreporter.write_line(f"{what}: {value}" + (f"  (goal: {goal})" if goal else ""))
