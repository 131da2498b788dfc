import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text()
IDS = [
    f"{letter}{n}"
    for letter, count in (("C", 7), ("I", 7), ("N", 11), ("S", 7))
    for n in range(1, count + 1)
]


def rows():
    """Requirement rows by id."""
    found = re.findall(r"^\| ([CINS]\d+) \| (.*?) \| (.*) \|$", PAGE, re.M)
    return {name: tests for name, _, tests in found}


def test_every_requirement_has_its_row_in_order():
    assert list(rows()) == IDS


def test_every_row_names_a_test_that_exists():
    for name, tests in rows().items():
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
        assert named, name
        for path, test in named:
            assert f"\ndef {test}(" in (ROOT / path).read_text(), (name, path, test)


def test_tests_that_carry_an_id_stand_in_its_row_or_beside_it():
    """A row names at least one test that carries its id in its own name, where one does."""
    carried = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for test in re.findall(r"^def (test_(?:[cins]\d+_)+\w+)\(", path.read_text(), re.M):
            for mark in re.findall(r"(?<=_)([cins]\d+)(?=_)", test):
                carried.setdefault(mark.upper(), set()).add(test)
    for name, tests in carried.items():
        assert any(test in rows()[name] for test in tests), name


def test_slow_tests_are_called_slow():
    for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)` \(\*slow\*", PAGE):
        source = (ROOT / path).read_text()
        before = source[: source.index(f"def {test}(")]
        assert "pytest.mark.slow" in before[-400:], test


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
