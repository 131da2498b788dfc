import re
from xml.etree import ElementTree as ET

import matplotlib as mpl

from cutlayer.reports.svg import INK, MARKS, Canvas, mark


def drawn(key="key", text="a name", title="A title"):
    with Canvas(key, 3.0, 2.0) as canvas:
        axes = canvas.figure.subplots()
        axes.plot([0, 1], [0, 1], color=MARKS[0].colour, marker="o")
        axes.bar([0.5], [1], hatch="//", facecolor="none", edgecolor=MARKS[1].colour)
        axes.text(0.2, 0.8, text, color=INK)
    return canvas.svg(title, "A description")


def test_colours_follow_the_page():
    svg = drawn()
    assert "currentColor" in svg
    assert "var(--mark-0, #0072b2)" in svg
    assert "var(--grid" in svg
    assert INK not in svg


def test_text_stays_text_and_the_element_is_named_for_a_screen_reader():
    root = ET.fromstring(drawn())  # noqa: S314 - our own markup
    assert root.attrib["role"] == "img"
    names = {child.attrib["id"]: child.text for child in root if "id" in child.attrib}
    assert [names[i] for i in root.attrib["aria-labelledby"].split()] == [
        "A title",
        "A description",
    ]
    assert "a name" in [node.text for node in root.iter("text")]


def test_the_same_figure_gives_the_same_bytes():
    assert drawn() == drawn()
    assert "date" not in drawn().lower()


def test_ids_are_unique_on_a_page_of_several_figures():
    page = drawn("one") + drawn("two")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    references = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', page)
    assert references
    assert {a or b for a, b in references} <= set(ids)


def test_hostile_text_is_escaped_and_not_rewritten():
    name = f"<script>$\\frac$ & {MARKS[0].colour} url(#x) 名"
    svg = drawn(text=name, title='"><script>')
    assert "<script>" not in svg
    assert name in [node.text for node in ET.fromstring(svg).iter("text")]  # noqa: S314


def test_nothing_reaches_out_of_the_figure():
    svg = drawn()
    assert "http" not in svg
    assert "<style" not in svg
    assert "<metadata" not in svg


def test_the_settings_of_matplotlib_are_left_as_they_were():
    before = dict(mpl.rcParams)
    drawn()
    assert dict(mpl.rcParams) == before


def test_series_differ_without_colour():
    assert len({(m.dash, m.marker) for m in MARKS}) == len(MARKS)
    assert mark(len(MARKS)) == mark(0)
