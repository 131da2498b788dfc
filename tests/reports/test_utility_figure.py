import re

import pytest

from cutlayer.reports import utility_beside_leak


def test_every_point_is_named_beside_it(findings):
    svg = utility_beside_leak(findings)
    for name in ("label_party_alone", "frozen", "no_noise", "marvell s=4", "residual sigma=4.26"):
        assert f">{name}<" in svg
    assert "marvell s=4: leak 1.000, test AUC 0.701" in svg
    assert "frozen: no gradient, test AUC 0.726" in svg


def test_names_of_equal_points_do_not_overlap(make_findings, findings):
    rows = [row.model_copy(update={"test_auc": 0.7}) for row in findings.rows]
    svg = utility_beside_leak(make_findings(rows=rows))
    places = [
        (float(x), float(y))
        for x, y in re.findall(
            r'x="([\d.]+)" y="([\d.]+)"[^>]*>(?:no_noise|isotropic t=1|max_norm|marvell s=4)<', svg
        )
    ]
    assert len(places) == 4
    for index, (x, y) in enumerate(places):
        for other_x, other_y in places[:index]:
            # Ten-point letters: names of ten letters side by side, or one line below the other.
            assert abs(x - other_x) > 55 or abs(y - other_y) > 9


def test_a_long_strength_is_on_a_line_of_its_own_and_cut(make_findings, findings):
    rows = [row.model_copy(update={"strength": "target=" + "9" * 60}) for row in findings.rows]
    svg = utility_beside_leak(make_findings(rows=rows))
    assert ">residual<" in svg
    assert ">target=" + "9" * 18 + "…<" in svg


def test_points_without_an_error_or_a_bound_are_drawn(make_findings, findings):
    rows = [row.model_copy(update={"test_auc_error": None}) for row in findings.rows]
    assert utility_beside_leak(make_findings(rows=rows)) is not None


@pytest.mark.parametrize("missing", ["test_auc", "leak_auc"])
def test_without_both_numbers_there_is_no_figure(make_findings, findings, missing):
    rows = [row.model_copy(update={missing: None}) for row in findings.rows]
    assert utility_beside_leak(make_findings(rows=rows, utility=[])) is None
