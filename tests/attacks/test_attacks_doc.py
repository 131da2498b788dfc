"""The page on attacks names each of them, with what it needs."""

import re
from pathlib import Path

import pytest

from cutlayer.attacks import ATTACKS, HISTORY_ATTACKS, SIDE_KNOWLEDGE, SUMMED_ATTACKS

PAGE = (Path(__file__).parents[2] / "docs" / "attacks.md").read_text()
SHORT = {"hint_gradients": "k hints", "hint_activations": "k hints", "hint_labels": "k hints"}


def line_of(name):
    lines = [line for line in PAGE.splitlines() if re.match(rf"\|.*`{name}`", line)]
    assert lines, f"docs/attacks.md has no line for {name}"
    return lines[0]


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_every_attack_has_a_line_with_what_it_needs(name):
    cells = [cell.strip() for cell in line_of(name).split("|")]
    needs = {SHORT.get(known, f"`{known}`") for known in ATTACKS[name].side_knowledge}
    assert cells[4] == (", ".join(sorted(needs)) or "–")
    assert (cells[2] == "±") == (not ATTACKS[name].oriented)


@pytest.mark.parametrize("name", sorted(HISTORY_ATTACKS))
def test_every_history_attack_has_a_line(name):
    attack = HISTORY_ATTACKS[name]
    if attack.average_of is None:
        line = line_of(name)
        assert all(f"`{known}`" in line for known in attack.side_knowledge)


def test_all_side_knowledge_and_every_sum_is_explained():
    assert all(f"`{name}`" in PAGE for name in [*SIDE_KNOWLEDGE, *SUMMED_ATTACKS])


def test_the_example_of_the_page_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/attacks.md", "exec"), {})  # noqa: S102  (our own text)
    assert "tail_energy" in capsys.readouterr().out
