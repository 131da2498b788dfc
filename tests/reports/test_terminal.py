import io
import re
import sys

import pytest
from rich.console import Console

from cutlayer.cli import main
from cutlayer.findings.document import write_findings
from cutlayer.reports import print_table


def printed(findings, width=100, *, colour=False):
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    print_table(findings, console)
    return console.file.getvalue()


def block(text, name):
    """The lines of one table row, from its name to the blank line after it."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(name))
    end = next(i for i in range(start, len(lines)) if not lines[i].strip())
    return "\n".join(lines[start:end])


@pytest.mark.parametrize("width", [80, 100, 140])
def test_every_number_of_a_row_is_there_at_every_width(findings, width):
    marvell = block(printed(findings, width), "marvell")
    for expected in ("s=4", "0.701±0.007", "0.212±0.001", "0.534", "0.641", "0.628", "0.992"):
        assert expected in marvell
    for expected in ("1.000 cut", "0.985 first", "model", "≤ 0.971", "beaten", "● 0.980 –"):
        assert expected in marvell


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_name_is_broken_within_a_word(findings, width):
    text = printed(findings, width)
    table = text[: text.index("Leak AUC")]
    assert "-" not in table  # names are joined by underscores
    for word in ("majority", "energy", "component", "cosine"):
        assert word in table


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut_short(findings, width):
    text = printed(findings, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 100])
def test_attacks_stand_side_by_side(findings, width):
    row = block(printed(findings, width), "no_noise")
    assert re.search(r"0\.931\s+0\.997\s+0\.996\s+0\.742\s+0\.991", row)


def test_many_attacks_are_listed_below_one_another(make_findings, findings):
    rows = [
        row.model_copy(update={"attack": f"{row.attack}_of_kind_{kind}"}) if row.attack else row
        for row in findings.rows
        for kind in (range(4) if row.attack else range(1))
    ]
    text = printed(make_findings(rows=rows, curves=[]), 80)
    assert max(map(len, text.splitlines())) <= 80
    marvell = block(text, "marvell")
    assert (
        "0.992  tail_energy_of_kind_" in " ".join(marvell.split("\n")) or "tail_energy" in marvell
    )
    assert len(marvell.splitlines()) <= 8


def test_the_worst_attack_of_a_row_has_a_column_also_where_others_read_more_elsewhere(
    make_findings, findings
):
    # Seven attacks read .9 of max_norm, and an eighth reads only residual, with .613.
    template = next(r for r in findings.rows if r.protection == "max_norm" and r.attack == "norm")
    strong = [
        template.model_copy(update={"attack": f"strong_{n}", "leak_auc": 0.9}) for n in range(7)
    ]
    mild = next(r for r in findings.rows if r.protection == "residual" and r.attack == "norm")
    mild = mild.model_copy(update={"attack": "mild", "leak_auc": 0.613})
    assert mild.releases == "one"
    assert mild.layer == "cut"
    text = printed(make_findings(rows=[*findings.rows, *strong, mild]), width=160)
    assert "0.613" in block(text, "residual")


def test_rows_follow_the_document(findings):
    text = printed(findings)
    places = [text.index(f"\n{name}") for name in ("frozen", "no_noise", "max_norm", "residual")]
    assert places == sorted(places)
    assert "no gradient is sent" in block(text, "frozen")


def test_numbers_that_chance_explains_are_dim_and_marked(findings):
    text = printed(findings, colour=True)
    assert "\x1b[2m0.533·\x1b[0m" in text
    assert "\x1b[2m0.641" not in text


def test_the_worst_attack_is_bold(findings):
    assert "\x1b[1;31m0.992↑\x1b[0m" in printed(findings, colour=True)


def test_canaries_within_their_bound_are_ok_and_others_are_marked(make_findings, findings):
    residual = block(printed(findings), "residual")
    assert "● 0.670 ok" in residual
    assert "ABOVE" not in residual
    rows = [
        row.model_copy(update={"leak_auc": 0.93})
        if (row.protection, row.target, row.attack) == ("residual", "canaries", "norm")
        else row
        for row in findings.rows
    ]
    text = printed(make_findings(rows=rows))
    assert "● 0.930 ABOVE" in block(text, "residual")
    assert "do not rely on this training" in " ".join(text.split())


def test_the_legend_and_the_verdicts_stand_below(findings):
    text = " ".join(printed(findings).split())
    assert "0.5 is guessing, 1 gives every label away" in text
    assert "95 % of attackers who know nothing" in text
    assert "All: the whole training, scores averaged over visits" in text
    assert "marvell s=4: its model allows at most 0.683" in text
    assert "2 more verdicts on the report page" in text
    assert "simulation" not in text


def test_a_simulation_says_that_its_noise_is_reproducible(make_findings):
    text = printed(make_findings(noise="simulation: noise is reproducible", processes=1))
    assert "simulation: noise is reproducible" in text
    assert "one process" in text


def test_an_interrupted_run_says_so(make_findings):
    assert "INTERRUPTED" in printed(make_findings(complete=False))


def test_an_unmeasured_first_layer_has_no_column_but_a_reason(make_findings, findings):
    text = printed(
        make_findings(
            rows=[row for row in findings.rows if row.layer != "first"],
            curves=[],
            first_layer="not measured (bounded by the cut)",
        )
    )
    assert "first layer" not in text
    assert "not measured  First layer: not measured (bounded by the cut)" in text


def test_one_split_has_no_error(make_findings, findings):
    rows = [
        row.model_copy(update={"test_auc_error": None, "test_loss_error": None})
        for row in findings.rows
    ]
    residual = block(printed(make_findings(rows=rows)), "residual")
    assert "0.688" in residual
    assert "±" not in residual


def test_an_empty_document_says_that_it_is_empty(make_findings):
    empty = make_findings(rows=[], applied=[], utility=[], curves=[], histograms=[])
    assert "nothing to show" in printed(empty)


def test_a_hostile_name_neither_colours_nor_clears_the_screen(make_findings, findings):
    rows = [row.model_copy(update={"protection": "[red]x\x1b[2J"}) for row in findings.rows]
    text = printed(make_findings(rows=rows, data="[bold]d\x1b]0;title\x07", hint="[/]"), 80)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]d" in text
    assert "[red]x" in text


def with_intervals(findings):
    """Every leak AUC with an interval of two hundredths to either side, cut at 1."""
    return [
        row
        if row.leak_auc is None
        else row.model_copy(
            update={
                "leak_auc_low": row.leak_auc - 0.02,
                "leak_auc_high": min(1.0, row.leak_auc + 0.02),
            }
        )
        for row in findings.rows
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_leak_above_its_bound_never_stands_without_its_interval(make_findings, findings, width):
    text = printed(make_findings(rows=with_intervals(findings)), width)
    assert max(map(len, text.splitlines())) <= width
    marvell = block(text, "marvell")
    # .985 at the first layer is above .971; 1.000 at the cut as well.
    for expected in ("1.000 cut", "↑.980–1.000", "0.985 first", "↑.965–1.000"):
        assert expected in marvell
    flat = " ".join(text.split())
    assert "↑ marvell s=4, one release: tail_energy 0.992 (0.972 to 1.000)." in flat
    assert "↑ residual sigma=4.26, one release: cosine 0.570 (0.550 to 0.590)." in flat
    assert "↑: above the bound that is stated for as many releases" in flat
    # No bound is stated without noise, so nothing stands above one.
    assert "↑" not in block(text, "no_noise")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "cp850", "koi8-r", "shift_jis"])
def test_a_terminal_without_utf_8_shows_the_same_numbers(findings, tmp_path, encoding, monkeypatch):
    """With plain signs, and never a traceback at the end of a run."""
    write_findings(findings, tmp_path / "findings.json")
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding=encoding))
    monkeypatch.setattr(sys, "argv", ["cutlayer", "report", str(tmp_path)])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    shown = kept.getvalue().decode(encoding)
    for part in ("canaries", "marvell", "0.992", "residual", "report.html"):
        assert part in shown
