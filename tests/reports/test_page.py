import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from cutlayer.findings.document import Bound, FindingRow
from cutlayer.reports import render_page, write_page

NO_FIGURES = {"curves": [], "histograms": []}
VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """The elements, texts and nesting of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def page(page_text):
    return Page(page_text)


def test_the_page_is_well_nested_and_in_one_language(page):
    assert page.open == []
    assert ("html", {"lang": "en"}) in page.elements


def test_headings_descend_one_level_at_a_time(page):
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_ids_are_unique_and_every_reference_leads_somewhere(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        targets = attributes.get("aria-labelledby", "").split()
        href = attributes.get("href", "")
        targets += [href[1:]] if href.startswith("#") else []
        assert set(targets) <= set(ids)


def test_header_cells_say_what_they_head(page):
    cells = [attributes for tag, attributes in page.elements if tag == "th"]
    assert cells
    assert {attributes.get("scope") for attributes in cells} == {"col", "row"}


def test_boxes_that_scroll_can_be_reached_by_keyboard(page):
    boxes = [a for _, a in page.elements if a.get("class") == "scroll"]
    assert boxes
    for attributes in boxes:
        assert attributes["tabindex"] == "0"
        assert attributes["role"] == "region"
        assert "aria-label" in attributes or "aria-labelledby" in attributes


def test_nothing_is_loaded_from_anywhere(page):
    assert not any(tag == "script" for tag, _ in page.elements)
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:,"))
    policy = next(a["content"] for t, a in page.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_the_numbers_are_on_the_page(page):
    for expected in (
        "4,657 training records, 6.0 % of them positive",
        "0.992",  # marvell, tail_energy, one release
        "0.688 ± 0.007",  # residual, test AUC
        "0.700 + 5 × 0.013 = 0.764",  # bound and chance of a canary
        "46,570",  # rows sent
        "Noise of deviation 4.26 on every residual, before the message head.",
        "Gaussian mechanism on the label, composed over all visits of the record.",
        "Measured by cutlayer 0.1.0",
        "cutlayer.findings/1",
        "learning_rate",
    ):
        assert expected in page.text


def test_every_row_of_the_document_is_listed(findings, page):
    assert f"All {len(findings.rows)} rows" in page.text


def test_the_summary_comes_first_and_shows_the_worst_beside_the_bound(page_text):
    text = page_text
    assert text.index('id="summary"') < text.index('id="leak"')
    start = text.index("marvell s=4", text.index('class="cards"'))
    card = text[start : text.index("</li>", start)]
    assert ">1.000<" in card
    assert "at most 0.971" in card
    assert "beaten" in card


def test_canaries_above_their_bound_are_called_out(make_findings, findings, page_text):
    rows = [
        row.model_copy(update={"leak_auc": 0.93}) if row.target == "canaries" else row
        for row in findings.rows
    ]
    text = Page(render_page(make_findings(rows=rows, **NO_FIGURES))).text
    assert "ABOVE ITS BOUND against the canaries: residual sigma=4.26." in text
    assert 'class="above">ABOVE' not in page_text


def test_canaries_are_counted_by_how_they_stand(page):
    assert "✓" not in page.text  # drawn by the style sheet, so that a screen reader says "ok"
    assert "5 ok" in page.text
    assert "5 no test" in page.text


def test_numbers_at_the_null_floor_are_pale(page_text):
    text = page_text
    pale = '<td class="number leak floor" style="--share: 6.6%"><span class="value">0.533'
    assert pale in text  # 2 x (.533 - .5)
    assert '<td class="number leak" style="--share: 28.2%"><span class="value">0.641' in text


def test_a_hostile_document_stays_text(make_findings, findings):
    evil = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}\x1b\u202e"
    rows = [
        row.model_copy(
            update={
                "protection": evil,
                "strength": evil,
                "attack": row.attack and evil + row.attack,
                "guarantee": row.guarantee.model_copy(update={"grounds": evil}),
            }
        )
        for row in findings.rows
    ]
    curves = [c.model_copy(update={"attack": evil, "protection": evil}) for c in findings.curves]
    applied = [
        a.model_copy(update={"protection": evil, "statement": evil}) for a in findings.applied
    ]
    text = render_page(
        make_findings(
            data=evil,
            hint=evil,
            first_layer=evil,
            created=evil,
            cutlayer_version=evil,
            settings={evil: evil},
            rows=rows,
            curves=curves[:3],
            histograms=[],
            applied=applied,
        )
    )
    page = Page(text)
    assert not any(tag in ("script", "img") for tag, _ in page.elements)
    assert not any(name.startswith("on") for _, a in page.elements for name in a)
    assert "49" not in page.text.split("<script>")[1][:60]
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_everything_that_may_be_absent_is_absent(make_findings):
    nothing = Bound(kind="none", leak_auc=None, grounds="")
    rows = [
        FindingRow(
            protection="no_noise",
            strength="-",
            attack=attack,
            layer=layer,
            releases=releases,
            target=target,
            leak_auc=None,
            leak_auc_p95=None,
            raw_auc=None,
            pooled_auc=None,
            null_floor=None,
            null_deviation=None,
            batches=0,
            one_class_batches=0,
            test_auc=None,
            test_auc_error=None,
            test_loss=None,
            test_loss_error=None,
            guarantee=nothing,
        )
        for attack, layer in ((None, None), ("norm", "cut"), ("norm", "first"), ("norm", None))
        for releases in ("one", "all")
        for target in ("labels", "canaries")
    ]
    text = Page(render_page(make_findings(rows=rows, utility=[], curves=[], histograms=[]))).text
    assert "not measured" in text
    assert "None" not in text.replace("None: no protection", "")
    assert "nan" not in text


def test_an_interrupted_simulation_says_both(make_findings):
    text = Page(
        render_page(
            make_findings(
                complete=False,
                noise="simulation: noise is reproducible",
                processes=1,
                **NO_FIGURES,
            )
        )
    ).text
    assert "Interrupted." in text
    assert "simulation: noise is reproducible." in text
    assert "a simulation in one process" in text


def test_an_empty_document_gives_a_clear_page(make_findings):
    empty = make_findings(rows=[], applied=[], utility=[], curves=[], histograms=[], settings={})
    page = Page(render_page(empty))
    assert page.open == []
    assert "there is nothing to report on" in page.text


def test_one_split_is_called_one_split(make_findings, findings):
    single = [
        u.model_copy(update={"test_auc": [0.7], "test_loss": [0.2]}) for u in findings.utility
    ]
    rows = [
        row.model_copy(update={"test_auc_error": None, "test_loss_error": None})
        for row in findings.rows
    ]
    text = Page(render_page(make_findings(rows=rows, utility=single, **NO_FIGURES))).text
    assert "Prediction of the test records, one split" in text
    assert "no standard error" in text
    assert "0.688 ±" not in text


def test_the_same_document_gives_the_same_bytes(findings, page_text):
    assert render_page(findings) == page_text


def test_the_file_is_written_whole_and_an_old_one_replaced(make_findings, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    small = make_findings(**NO_FIGURES)
    write_page(small, path)
    assert path.read_text(encoding="utf-8") == render_page(small)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def with_visits(findings):
    """Rows of the whole training after 1 and 5 epochs beside those over all 10."""
    rows = []
    for row in findings.rows:
        if row.releases == "all" and row.attack is not None:
            rows += [
                row.model_copy(
                    update={
                        "releases": "some",
                        "epochs": epochs,
                        "leak_auc": 0.5 + (row.leak_auc - 0.5) * share,
                        "leak_auc_low": 0.5,
                        "leak_auc_high": row.leak_auc,
                        "needs": "the labels of 5 records of each class",
                        "hints": 5,
                        "true_positive_rate": 0.25,
                    }
                )
                for epochs, share in ((1, 0.2), (5, 0.6))
            ]
            row = row.model_copy(update={"epochs": 10, "hints": 5, "needs": rows[-1].needs})
        rows.append(row)
    return rows


def test_the_leak_is_drawn_against_visits_and_listed_by_attack(make_findings, findings):
    text = render_page(make_findings(rows=with_visits(findings), **NO_FIGURES))
    page = Page(text)
    assert page.open == []
    # marvell, tail_energy: 1.000 over all, so .5 + .2 x .5 and .5 + .6 x .5 before.
    assert "0.600 after 1, 0.800 after 5, 1.000 after 10 epochs" in page.text
    assert "Bound: 0.971 after 1, 0.971 after 5, 0.971 after 10" in page.text
    assert "tail_energy, 5 known" in page.text
    assert "the labels of 5 records of each class" in page.text


def test_the_worst_attack_on_a_protected_training_comes_first(page_text):
    table = page_text[page_text.index('id="leak-cut-one"') :]
    first, second = (
        table.index('<th scope="row">tail_energy'),
        table.index('<th scope="row">cosine'),
    )
    assert first < second


def test_what_is_called_worst_first_is_sorted_by_the_number_that_is_shown(page_text):
    for table in re.findall(r'<table class="heat".*?</table>', page_text, re.S):
        highest = []
        for line in re.findall(r'<tr><th scope="row">.*?</tr>', table, re.S):
            cells = re.findall(r'data-of="([^"]+)"[^>]*><span class="value">([\d.]+)', line)
            highest.append(max(float(leak) for of, leak in cells if of != "no_noise"))
        assert len(highest) > 1
        assert highest == sorted(highest, reverse=True)


def test_attacks_and_folds_are_explained(make_findings):
    from cutlayer.findings.document import AttackNote, KnowledgeBaseline

    note = AttackNote(name="norm", about="Scores by length.", published="Li et al. (2022)")
    baseline = KnowledgeBaseline(
        protection="max_norm",
        strength="-",
        name="features",
        target="labels",
        hints=20,
        leak_auc=0.61,
        leak_auc_low=0.6,
        leak_auc_high=0.62,
        true_positive_rate=0.05,
    )
    made = make_findings(
        attacks=[note], baselines=[baseline], description="Customers of an insurer.", **NO_FIGURES
    )
    text = Page(render_page(made)).text
    for expected in (
        "Scores by length.",
        "Split, fold",
        "Customers of an insurer.",
        "its own features and 20 known records of each class",
        "0.600 to 0.620",
    ):
        assert expected in text


def test_the_contents_lead_only_to_what_is_there(make_findings, findings, page_text):
    without = [row for row in findings.rows if row.target == "labels"]
    silent = render_page(make_findings(rows=without, **NO_FIGURES))
    pages = {True: page_text, False: silent}
    for coins, page in pages.items():
        links = set(re.findall(r'<li><a href="#([a-z]+)">', page))
        assert links <= set(re.findall(r'<section id="([a-z]+)"', page))
        assert ("canaries" in links) is coins
