"""Extras: packages that only a part of cutlayer needs, and how each of them is installed.

``pip install cutlayer`` brings what a training loop of one's own needs: protections, attacks,
leakage, ``protect``, ``protected_loss`` and ``audit``. Everything else names its extra when a
package is missing.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from cutlayer.errors import MissingExtraError

EXTRAS: dict[str, tuple[str, ...]] = {
    "run": (
        "grpc",
        "polars",
        "pydantic",
        "pydantic_core",
        "rich",
        "safetensors",
        "sklearn",
        "threadpoolctl",
        "typer",
    ),
    "report": ("jinja2", "matplotlib"),
    "images": ("PIL",),
    "metrics": ("prometheus_client",),
    "psi": ("rbcl",),
    "ray": ("ray",),
}
"""Top-level modules by the extra that installs them. ``cutlayer[all]`` installs run and report."""


def explained(error: ModuleNotFoundError) -> ImportError:
    """What to raise for a module that is not there: with the pip line, if an extra installs it.

    Args:
        error: as Python raised it.

    Returns:
        A :class:`~cutlayer.errors.MissingExtraError`, or ``error`` itself for other modules.
    """
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return MissingExtraError(
                f"This part of cutlayer needs {module}, which is not installed. Install it with: "
                f"pip install 'cutlayer[{extra}]'"
            )
    return error


@contextmanager
def needing() -> Iterator[None]:
    """Imports inside name the extra if a package is missing.

    Raises:
        MissingExtraError: an extra would bring what is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        found = explained(error)
        if found is error:
            raise
        raise found from error
