import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_example_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102  (our own text)
    assert names["loss"].isfinite()


def test_the_example_of_an_audit_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/auditing.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "auditing.md", "exec"), names)  # noqa: S102  (our own text)
    # Gradients of a linear top are multiples of one vector: the tails hold Marvell's noise alone.
    assert names["worst"].leak_auc > 0.95


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
