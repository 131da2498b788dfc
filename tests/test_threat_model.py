import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "threat_model.md").read_text()


def test_every_test_that_the_threat_model_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) >= 20
    for path, name in named:
        assert f"\ndef {name}(" in (ROOT / path).read_text(), (path, name)


def test_its_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link


def test_every_line_of_who_might_attack_has_a_test_or_is_an_assumption():
    table = PAGE.partition("## Who might attack")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    assert len(rows) >= 10
    for row in rows:
        assert "::test_" in row or "*assumption*" in row, row


def test_every_place_where_labels_decide_something_has_a_test():
    table = PAGE.partition("## What labels decide, and when")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    assert len(rows) >= 15
    assert all(row.count(" | ") == 3 and "::test_" in row.rpartition(" | ")[2] for row in rows)
