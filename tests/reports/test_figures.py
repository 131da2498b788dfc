import re

import pytest

from cutlayer.findings.document import LeakCurve
from cutlayer.reports import figures


@pytest.fixture(scope="module")
def curve_panels(findings):
    return figures.leak_curves(findings)


def test_one_panel_of_curves_for_each_protection_with_both_layers(curve_panels):
    panels = curve_panels
    assert [p.heading for p in panels] == [
        "no_noise",
        "isotropic t=1",
        "max_norm",
        "marvell s=4",
        "residual sigma=4.26",
    ]
    for panel in panels:
        assert ">cut layer<" in panel.svg
        assert ">first layer<" in panel.svg
        assert "var(--chance" in panel.svg  # the null floor


def test_the_description_reads_the_medians(curve_panels):
    panel = curve_panels[0]
    assert re.search(
        r"<desc[^>]*>Median leak AUC over the steps: norm at the cut layer 0\.9", panel.svg
    )


def test_each_attack_keeps_its_line_in_every_panel(findings, curve_panels):
    swatches = figures.attack_swatches(findings)
    assert [s.heading for s in swatches][:2] == ["norm", "cosine"]
    for panel in curve_panels:
        for index in range(5):
            assert f"var(--mark-{index}," in panel.svg


def test_canary_curves_have_a_panel_of_their_own(make_findings, findings):
    coins = [c.model_copy(update={"target": "canaries"}) for c in findings.curves[-1:]]
    both = make_findings(curves=[*findings.curves[::10], *coins])
    assert len(figures.leak_curves(both)) == 5
    (panel,) = figures.leak_curves(both, "canaries")
    assert panel.heading == "residual sigma=4.26"
    assert "against the canary coins" in panel.svg


@pytest.mark.parametrize("steps", [0, 1, 2, 41, 5000])
def test_any_number_of_steps_is_drawn_in_bounded_size(make_findings, steps):
    curve = LeakCurve(
        protection="no_noise",
        strength="-",
        attack="norm",
        layer="cut",
        target="labels",
        step=list(range(steps)),
        leak_auc=[0.5 + (i % 50) / 100 for i in range(steps)],
        null_floor=[0.6] * steps,
    )
    (panel,) = figures.leak_curves(make_findings(curves=[curve]))
    assert len(panel.svg) < 60_000


def test_histograms_name_both_quantities_and_the_overlap(findings):
    panels = figures.class_histograms(findings, "cut")
    assert len(panels) == 5
    assert ">norm / largest<" in panels[0].svg
    assert ">cosine with a positive<" in panels[0].svg
    assert "<pattern" in panels[0].svg  # positives are hatched, not only coloured
    histogram = next(h for h in findings.histograms if h.layer == "cut")
    shared = sum(min(p, n) for p, n in zip(histogram.positive, histogram.negative, strict=True))
    assert f"norm: the classes share {shared:.0%} of their mass" in panels[0].svg


def test_without_curves_and_histograms_there_is_no_panel(make_findings):
    empty = make_findings(rows=[], utility=[], curves=[], histograms=[])
    assert figures.leak_curves(empty) == []
    assert figures.class_histograms(empty, "cut") == []
