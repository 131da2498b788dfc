"""docs/findings.md describes the format that the code has: neither may change alone."""

import re
from pathlib import Path

import pytest

from cutlayer.findings import document as findings

DOC = Path(__file__).parents[2] / "docs" / "findings.md"
MODELS = [
    value
    for value in vars(findings).values()
    if isinstance(value, type)
    and issubclass(value, findings._Record)
    and value is not findings._Record
]


def documented():
    """Field names by section, as the tables of the page list them."""
    sections = re.split(r"^## ", DOC.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        section.split("\n", 1)[0]: re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
        for section in sections
    }


def test_every_part_of_the_document_has_a_section():
    assert set(documented()) == {model.__name__ for model in MODELS}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_fields_are_those_of_the_code_in_their_order(model):
    names = [field.alias or name for name, field in model.model_fields.items()]
    assert documented()[model.__name__] == names


def test_the_schema_of_the_page_is_that_of_the_code():
    assert f"`{findings.SCHEMA}`" in DOC.read_text(encoding="utf-8")


def test_links_inside_the_page_lead_to_sections():
    text = DOC.read_text(encoding="utf-8")
    anchors = {name.lower() for name in documented()}
    assert set(re.findall(r"\]\(#(\w+)\)", text)) <= anchors
