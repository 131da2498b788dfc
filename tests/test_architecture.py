"""The one-way import direction of the house, and what may not be in it at all."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cutlayer

SOURCE = Path(cutlayer.__file__).parent
FIRST_ROW = {"check", "descriptors", "durable", "errors", "escaping", "extras"} | {
    "lazy",
    "rng",
    "registry",
}
MAY_IMPORT = {
    **dict.fromkeys(FIRST_ROW, FIRST_ROW),
    **dict.fromkeys(("data", "models", "leakage", "protocol", "transcript"), FIRST_ROW),
    "alignment": FIRST_ROW | {"data"},
    "preparation": FIRST_ROW | {"data"},
    "protections": FIRST_ROW | {"leakage"},
    "attacks": FIRST_ROW | {"transcript"},
    "parties": FIRST_ROW
    | {"alignment", "data", "models", "leakage", "protections", "protocol", "transcript"},
    "audits": FIRST_ROW | {"transcript", "attacks", "leakage"},
    "findings": FIRST_ROW | {"audits", "transcript", "attacks", "leakage"},
    "reports": FIRST_ROW | {"audits", "findings"},
}
MAY_IMPORT["runs"] = set(MAY_IMPORT)
MAY_IMPORT["experiments"] = set(MAY_IMPORT)
MAY_IMPORT["operation"] = set(MAY_IMPORT) - {"experiments"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
ENTRY_POINTS = {"__init__", "__main__"}
SEEDED_NUMPY = {"PCG64", "SeedSequence", "Generator", "default_rng"}
FORBIDDEN = {"pickle", "cPickle", "marshal", "dill", "cloudpickle", "shelve"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    inside = path.relative_to(SOURCE) if path.is_relative_to(SOURCE) else path
    return inside.parts[0].removesuffix(".py")


def imported_names(path: Path) -> set[str]:
    """Every module that a file imports, as dotted names; `from a import b` counts as a.b too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            names |= {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
    return names


def imported_packages(path: Path) -> set[str]:
    """Our own packages that a file imports."""
    names = {name.split(".")[1] for name in imported_names(path) if name.startswith("cutlayer.")}
    assert names <= set(MAY_IMPORT), f"{path}: import {names - set(MAY_IMPORT)} from its home"
    return names - {package_of(path)}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    package = package_of(path)
    if package in ENTRY_POINTS:
        return
    assert package in MAY_IMPORT, f"{package} has no row in the table of allowed imports"
    assert imported_packages(path) <= MAY_IMPORT[package]


def test_the_walker_sees_a_forbidden_import(tmp_path):
    file = tmp_path / "attack.py"
    file.write_text("from cutlayer.parties import LabelParty\nfrom cutlayer import check\n")
    assert imported_packages(file) == {"parties", "check"}
    file.write_text("from cutlayer import leak_auc\n")
    with pytest.raises(AssertionError, match="leak_auc"):
        imported_packages(file)


def test_no_module_deserialises_code():
    for path in modules():
        names = {name.split(".")[0] for name in imported_names(path)}
        assert not names & FORBIDDEN, path
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "torch.load", "__import__"), (path, called)


def test_no_module_touches_the_global_generator():
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                # The run key seeds dropout, step by step, so that a replayed step is the same.
                seeds = {"torch.seed", "random.seed"}
                if path.name != "run_key.py":
                    seeds.add("torch.manual_seed")
                assert name not in seeds, path
                drawn = re.match(r"(?:np|numpy)\.random\.(\w+)", name)
                assert drawn is None or drawn[1] in SEEDED_NUMPY, (path, name)


def test_ruff_sees_every_file_of_the_project():
    """An exclusion in pyproject.toml once hid two folders named `runs` from the linter."""
    root = Path(__file__).parents[1]
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("needs a git checkout, to know which files belong to the project")
    ruff = Path(sys.executable).parent / "ruff"

    def lines(*command: object) -> set[str]:
        done = subprocess.run([*map(str, command)], cwd=root, capture_output=True, check=True)
        return set(done.stdout.decode().splitlines())

    tracked = lines("git", "ls-files", "*.py")
    seen = {Path(one).relative_to(root).as_posix() for one in lines(ruff, "check", "--show-files")}
    assert tracked
    assert not tracked - seen
