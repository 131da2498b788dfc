"""The server from which tests fork processes that start within milliseconds.

There is one for a test session, whoever asks for it first: so it loads what anybody needs.
"""

import multiprocessing
from multiprocessing.context import ForkServerProcess

from coverage import multiproc

from cutlayer.cli.app import COMMANDS

LOADED = sorted({f"cutlayer.cli.{command.module}" for command in COMMANDS.values()})
"""What a command would import anew in each process."""
LOADED += ["cutlayer.reports.figures", "cutlayer.reports.utility_figure"]
LOADED += ["sklearn.metrics", "sklearn.decomposition", "sklearn.linear_model"]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["pytest", *LOADED, "tests.faults.parties", "tests.faults.warm"])


class Untraced(ForkServerProcess):
    """A process whose lines are not counted: it runs as fast, and is killed as safely, as one of
    no test."""

    _bootstrap = multiproc.original_bootstrap
