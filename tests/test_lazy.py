"""Packages whose names are imported when they are asked for: the three lists of each agree."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cutlayer
from cutlayer.lazy import lazily

PACKAGES = [
    "cutlayer",
    "cutlayer.audits",
    "cutlayer.data",
    "cutlayer.protocol",
    "cutlayer.reports",
    "cutlayer.transcript",
]


def for_type_checkers(package):
    """Names that the package imports for type checkers alone, by the module they are from."""
    tree = ast.parse(Path(import_module(package).__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.name: node.module for node in block.body for alias in node.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_found_where_type_checkers_find_it(package):
    module, homes = import_module(package), for_type_checkers(package)
    assert set(module.__all__) == set(homes)
    for name, home in homes.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_lazy_that_is_not_public(package):
    tree = ast.parse(Path(import_module(package).__file__).read_text())
    table = tree.body[-1].value.args[1]
    names = [name for names in ast.literal_eval(table).values() for name in names]
    assert sorted(names) == sorted(import_module(package).__all__)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'cutlayer' has no attribute 'marvel'"):
        cutlayer.marvel  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        lazily("cutlayer", {})("x")


TORCH = {"torch", "grpc"}
SLOW = {"sklearn", "matplotlib", "ray"}


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("cutlayer.cli", TORCH | SLOW | {"scipy", "numpy", "polars", "pydantic"}),
        ("cutlayer.cli.identity_commands", TORCH | SLOW | {"scipy", "pydantic"}),
        ("cutlayer.cli.party_commands, cutlayer.cli.audit_commands", SLOW),
    ],
)
def test_what_is_not_needed_is_not_loaded(modules, absent):
    """In a new process: `init`, `pair`, `--help` and `--version` answer before torch is there."""
    code = f"import sys, {modules}; print(*sorted(set(sys.modules) & {absent}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == []
