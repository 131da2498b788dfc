"""N2: nothing that a party's operator can write reaches noise that somebody could repeat."""

import ast
from pathlib import Path

import pytest

import cutlayer
from tests.runs.command import Command
from tests.runs.test_two_commands import Pair

SOURCE = Path(cutlayer.__file__).parent


@pytest.mark.parametrize("party", ["label", "other"])
@pytest.mark.parametrize("key", ["noise_seed", "seed_noise", "noise", "deterministic"])
def test_n2_a_key_for_seeded_noise_is_an_error_of_usage(tmp_path, unused_port, party, key):
    pair = Pair(tmp_path, unused_port)
    pair.write_configurations(**{key: "1"})
    name = "label-party" if party == "label" else "non-label-party"
    command = Command([name, "run.toml"], tmp_path / party)
    _, complained = command.communicate(timeout=60)
    assert command.returncode == 2
    assert f"unknown key {key!r}" in complained.replace('"', "'")


def test_n2_no_module_of_a_real_run_knows_the_seeded_source():
    real = [*(SOURCE / "parties").rglob("*.py"), *(SOURCE / "runs").rglob("*.py")]
    real += [*(SOURCE / "protections").rglob("*.py"), SOURCE / "cli" / "party_commands.py"]
    for path in real:
        names = {
            node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)
        }
        assert "SeededNoise" not in names, path
    simulations = (SOURCE / "experiments").rglob("*.py")
    assert any("SeededNoise" in path.read_text() for path in simulations)  # the control
