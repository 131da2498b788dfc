import html
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from cutlayer.experiments.tradeoff.page import drawings_of, warnings_of, write_report
from cutlayer.experiments.tradeoff.published import published_points
from cutlayer.experiments.tradeoff.summary import summarise
from cutlayer.experiments.tradeoff.utility_curves import utility_drawings

FIGURES = [
    "tradeoff-cut",
    "suite-cut",
    "tradeoff-first",
    "suite-first",
    "progress",
    "distributions-cut",
    "distributions-first",
]


@pytest.fixture(scope="module")
def summary(done_sweep):
    return summarise(*done_sweep)


def drawn(drawing):
    figure = Figure()
    drawing.draw(figure, "#cccccc")
    return figure


def curves(axes):
    """The points of each line with a name."""
    found = {}
    for container in axes.containers:
        if container.get_label() and hasattr(container, "lines"):
            line = container.lines[0]
            found[container.get_label()] = (list(line.get_xdata()), list(line.get_ydata()))
    for line in axes.lines:
        if not line.get_label().startswith("_"):
            found[line.get_label()] = (list(line.get_xdata()), list(line.get_ydata()))
    return found


def test_every_figure_and_the_page_are_written(summary, done_sweep, tmp_path):
    _, folder = done_sweep
    ends = replace(summary, points=(summary.points[0], summary.points[-1]))  # drawing takes time
    page = write_report(ends, folder)
    files = {path.name for path in (folder / "figures").iterdir()}
    assert files == {f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "png")}
    text = page.read_text()
    assert text.count("<svg") == len(FIGURES)
    assert "marvell s=4" in text
    assert all(drawing.note in html.unescape(text) for drawing in drawings_of(ends, folder))
    assert "not measured" not in text  # claims.csv has those
    assert text.index("Which protection") < text.index("Claims") < text.index("Figures")
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert not list(folder.glob("*.partial"))


def test_the_curves_show_the_summarys_points(summary):
    figure = drawn(utility_drawings(summary)[0])
    # Rows: test loss, test AUC, training loss; columns: norm, cosine.
    panels = dict(
        zip(
            [(q, a) for q in ("test_loss", "test_auc", "train_loss") for a in ("norm", "cosine")],
            figure.axes,
            strict=True,
        )
    )
    for (quality, attack), axes in panels.items():
        found = curves(axes)
        assert set(found) == {"no_noise", "isotropic", "max_norm", "marvell"}
        for protection, (leaks, values) in found.items():
            points = summary.of(protection)
            assert leaks == [p.leak(attack, "cut", "median").mean for p in points]
            assert values == [p.quality(quality).mean for p in points]


def test_published_points_stand_beside_ours_where_the_data_are_the_same(summary):
    assert not any("published" in label for label in curves(drawn_panel(summary)))
    same = replace(
        summary, configuration=summary.configuration.model_copy(update={"published": "criteo"})
    )
    leaks, aucs = curves(drawn_panel(same))["marvell, published"]
    expected = [p for p in published_points("criteo") if p.protection == "marvell" and p.cosine_p95]
    assert leaks == [point.cosine_p95 for point in expected]
    assert aucs == [point.test_auc for point in expected]


def test_a_figure_says_how_to_read_it_where_it_stands_alone(summary, tmp_path):
    drawing = utility_drawings(summary)[0]
    assert "breast-cancer, means over 2 seeds" in drawing.note
    assert "one release, median over batches" in drawing.note
    assert "of two seeds are their range" in drawing.note
    assert "intervals of the mean" not in drawing.note
    assert "null floor" in drawing.note
    assert "hollow" not in drawing.note
    published = summary.configuration.model_copy(
        update={"published": "criteo", "paper_protocol": True}
    )
    note = utility_drawings(replace(summary, configuration=published))[0].note
    assert "95th percentile over batches" in note
    assert "hollow points were published for criteo" in note
    one = replace(summary, points=tuple(replace(p, results=p.results[:1]) for p in summary.points))
    assert "means over 1 seed;" in utility_drawings(one)[0].note
    assert "whiskers" not in utility_drawings(one)[0].note
    for path in drawing.save(tmp_path):
        assert path.stat().st_size > 0
    svg = drawing.svg()
    assert "null floor" not in svg  # the page has it beside the figure


def test_the_share_of_a_class_is_the_height_of_its_histogram(summary, done_sweep):
    drawings = {d.name: d for d in drawings_of(summary, done_sweep[1])}
    figure = drawn(drawings["distributions-cut"])
    assert {axes.get_ylabel() for axes in figure.axes[::2]} == {"share of class"}
    assert "shares of a class" in drawings["distributions-cut"].note


@pytest.mark.parametrize(("aucs", "warned"), [((0.5, 0.9), True), ((0.51, 0.9), False)])
def test_a_network_that_learned_nothing_is_pointed_out(summary, aucs, warned):
    bare, *others = summary.points
    results = tuple(
        result.model_copy(update={"test_auc": auc})
        for result, auc in zip(bare.results, aucs, strict=True)
    )
    points = (replace(bare, results=results), *others)
    warnings = warnings_of(replace(summary, points=points))
    assert any("hardly learned" in warning for warning in warnings) == warned


def drawn_panel(summary):
    """Test AUC against cosine leak at the cut."""
    return drawn(utility_drawings(summary)[0]).axes[3]


def test_progress_and_distributions_have_a_line_for_each_protection(summary, done_sweep):
    drawings = {d.name: d for d in drawings_of(summary, done_sweep[1])}
    progress = drawn(drawings["progress"])
    assert [axes.get_title(loc="left") for axes in progress.axes] == [
        "norm, cut layer",
        "cosine, cut layer",
        "norm, first layer",
        "cosine, first layer",
    ]
    labels = [point.label for point in summary.points]
    assert [line.get_label() for line in progress.axes[0].lines] == labels
    distributions = drawn(drawings["distributions-cut"])
    assert [axes.get_title(loc="left") for axes in distributions.axes[::2]] == labels


def test_the_page_says_what_is_missing_and_which_protocol(summary):
    assert any("simulation" in warning for warning in warnings_of(summary))
    assert not any("paper" in warning for warning in warnings_of(summary))
    paper = summary.configuration.model_copy(update={"paper_protocol": True, "model": "paper"})
    warned = " ".join(warnings_of(replace(summary, configuration=paper, runs=99)))
    assert "as the paper's code does" in warned
    assert "in clear" in warned
    assert "One batch of every 4 was attacked" in warned
    assert "runs are not done yet" in warned
