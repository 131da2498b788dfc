"""The findings as one table on a terminal of 80 columns or more."""

import re
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cutlayer.audits.scope import Layer
from cutlayer.findings.document import FindingRow, Findings
from cutlayer.reports.bound_violations import BOUND_MARK, listed
from cutlayer.reports.phrases import number, over
from cutlayer.reports.summary import (
    CANARY_DEVIATIONS,
    Estimate,
    ProtectionSummary,
    above_bound,
    attacks_of,
    below_floor,
    by_protection,
    layers_of,
    seen_by,
    worst_first,
)
from cutlayer.reports.wording import (
    LAYER_NAMES,
    Level,
    headlines,
    not_measured,
    printable,
)
from cutlayer.reports.worth import base_loss, worth

CHANCE_MARK = "·"
"""Follows a number that chance explains, where a terminal shows no dim text."""

_LEVEL_STYLE: dict[Level, str] = {
    "alarm": "bold red",
    "warning": "bold yellow",
    "good": "bold green",
    "note": "bold",
}


_PROCESSES = {2: "two processes", 1: "one process", 0: "from another framework"}

_MOST_COLUMNS = 6
"""Attacks side by side; with more, the worst are shown and the others are on the page."""
_MOST_LINES = 3
"""Attacks below one another."""
_LONGEST_WORD = 24
"""Only a longer one is cut."""


@dataclass(frozen=True)
class _Layout:
    """One way to fit the table; the first that is narrow enough is used."""

    fragment: int
    """Longest line of an attack's name, which is broken behind ``_`` and never within a word."""
    test_apart: bool
    """Test AUC and loss in a column of their own, not under the name."""
    listed: bool = False
    """The worst attacks of each row below one another, where they do not fit side by side."""


_LAYOUTS = (
    _Layout(fragment=15, test_apart=True),
    _Layout(fragment=9, test_apart=True),
    _Layout(fragment=9, test_apart=False),
    _Layout(fragment=15, test_apart=True, listed=True),
    _Layout(fragment=15, test_apart=False, listed=True),
    _Layout(fragment=9, test_apart=False, listed=True),
)


def print_table(findings: Findings, console: Console) -> None:
    """Print one row per protection or baseline, a legend, the gaps, and the verdicts in words.

    Args:
        findings: the document; its order is kept.
        console: where to print; the table adapts to its width, down to 80 columns and, with the
            attacks below one another, to less.
    """
    console.print(_title(findings))
    summaries = by_protection(findings)
    if not summaries:
        console.print("No protection was trained and no attack was run: there is nothing to show.")
    else:
        console.print(_fitting_table(findings, summaries, console))
        console.print()
        console.print(_legend(findings))
        for line in _above_in_one_release(findings, summaries):
            console.print(line)
    for gap in not_measured(findings):
        console.print(Text.assemble(("not measured  ", "yellow"), printable(gap)))
    for sentence in worth(findings):
        console.print(Text.assemble(("model  ", "yellow"), printable(sentence)))
    shown, left_out = headlines(findings)
    for verdict in shown:
        about = (f"{printable(verdict.about)}: ", _LEVEL_STYLE[verdict.level])
        console.print(Text.assemble(about, printable(verdict.text)))
    if left_out:
        console.print(Text(f"{left_out} more verdicts on the report page.", "dim"))


def _title(findings: Findings) -> Text:
    """Which run this is, and whether its noise was secret."""
    title = Text()
    title.append(printable(findings.data), "bold")
    title.append(
        f"  {findings.train_records} training records, {findings.positive_share:.1%} positive; "
        f"{findings.test_records} test records; " + _PROCESSES.get(findings.processes, "")
    )
    if (known := base_loss(findings)) is not None:
        title.append(f"\nThe share of positives alone has test loss {number(known)}.")
    if findings.noise.startswith("simulation"):
        title.append(f"\n{findings.noise}", "yellow")
    if not findings.complete:
        title.append("\nINTERRUPTED: this covers only what was done", "bold yellow")
    return title


def _fitting_table(
    findings: Findings, summaries: list[ProtectionSummary], console: Console
) -> Table:
    """The roomiest table that the console is wide enough for."""
    table = Table()
    for layout in _LAYOUTS:
        table = _table(findings, summaries, layout)
        unlimited = console.options.update_width(1000)
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
    return table


def _table(findings: Findings, summaries: list[ProtectionSummary], layout: _Layout) -> Table:
    """The table in one layout."""
    attacks, layers = _shown_attacks(findings, summaries), layers_of(findings)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), show_lines=False)
    apart = layout.test_apart
    quality = "test AUC\n95 % range\ntest loss"
    table.add_column(Text("protection" if apart else f"protection\n{quality}"))
    if apart:
        table.add_column(Text(quality))
    headers = [_broken(printable(attack), layout.fragment) for attack in attacks]
    widths = [max(6, *(len(line) for line in header)) for header in headers]
    if attacks:
        title = "leak AUC in one release, at the cut"
        heads = (
            [] if layout.listed else _side_by_side([list(map(Text, h)) for h in headers], widths)
        )
        table.add_column(Text("\n").join([Text(title, "italic"), *heads]))
    table.add_column(Text("worst, all\n" + "\n".join(LAYER_NAMES[layer] for layer in layers)))
    table.add_column(Text("guarantee\nbound, all\n● canaries"))

    for index, summary in enumerate(summaries):
        cells = [_name(summary, apart)] + ([_test(summary)] if apart else [])
        if attacks:
            cells.append(_attacks(summary, attacks, widths, layout))
        cells += [_worst(summary, layers, layout.fragment), _guarantee(summary)]
        table.add_row(*cells, end_section=index + 1 < len(summaries))
    return table


def _shown_attacks(findings: Findings, summaries: list[ProtectionSummary]) -> list[str]:
    """The attacks with a column of their own: those that read most from one release."""
    attacks = attacks_of(findings)
    if len(attacks) <= _MOST_COLUMNS:
        return attacks
    ranked = worst_first(findings, summaries, layer="cut", releases="one")
    # The worst attack on each protection comes before the second worst on any, so that the worst
    # number of a row is the one that the verdict names.
    protected = [s for s in summaries if s.protection != "no_noise"] or summaries
    tops = (s.worst(layer="cut", releases="one") for s in protected)
    leading = {top.attack for top in tops if top is not None}
    kept = sorted(ranked, key=lambda attack: attack not in leading)[:_MOST_COLUMNS]
    return [attack for attack in ranked if attack in kept]


def _name(summary: ProtectionSummary, apart: bool) -> Text:
    """Protection and strength, with the utility below where it has no column."""
    lines = [Text(line, "bold") for line in _broken(printable(summary.protection), 13)]
    if summary.label != summary.protection:
        lines += [Text(line) for line in _broken(printable(summary.strength), 13)]
    return Text("\n").join(lines if apart else [*lines, _test(summary)])


def _test(summary: ProtectionSummary) -> Text:
    """Test AUC, its interval from one split, and test loss; with standard errors over splits."""
    lines = [_narrow(summary.test_auc), _narrow(summary.test_loss)]
    if (ends := summary.test_interval) is not None:
        lines.insert(1, "–".join(number(end).removeprefix("0") for end in ends))
    return Text("\n".join(lines))


def _narrow(value: Estimate | None) -> str:
    """Mean and standard error in eleven characters."""
    if value is None:
        return "–"
    return number(value[0]) + ("" if value[1] is None else f"±{number(value[1])}")


def _attacks(
    summary: ProtectionSummary, attacks: list[str], widths: list[int], layout: _Layout
) -> Text:
    """The leak AUC of every attack in one release; the worst in bold."""
    if summary.is_baseline:
        return Text("no gradient is sent", "dim")
    if summary.is_unattacked:
        return Text("no attack was run", "dim")
    rows = [summary.cell(attack, layer="cut", releases="one") for attack in attacks]
    worst = max((r.leak_auc for r in rows if r and r.leak_auc is not None), default=None)
    values = [_leak(row, worst) for row in rows]
    if layout.listed:
        order = sorted(range(len(rows)), key=lambda i: -_read(rows[i]))[:_MOST_LINES]
        return Text("\n").join(Text.assemble(values[i], " ", printable(attacks[i])) for i in order)
    note = [Text("(against the canaries)", "dim")] if summary.target == "canaries" else []
    return Text("\n").join([*_side_by_side([[value] for value in values], widths), *note])


def _read(row: FindingRow | None) -> float:
    """A leak AUC to sort by."""
    return -1.0 if row is None or row.leak_auc is None else row.leak_auc


def _leak(row: FindingRow | None, worst: float | None = None, *, above: str = BOUND_MARK) -> Text:
    """One leak AUC: dim and marked where chance explains it, bold where it is the worst."""
    if row is None or row.leak_auc is None:
        return Text("– ", "dim")
    if below_floor(row):
        return Text(f"{number(row.leak_auc)}{CHANCE_MARK}", "dim")
    mark = above if above_bound(row) else " "
    return Text(f"{number(row.leak_auc)}{mark}", "bold red" if row.leak_auc == worst else "")


def _worst(summary: ProtectionSummary, layers: list[Layer], fragment: int) -> Text:
    """The strongest attack on the whole training at each layer: its value, then its name."""
    lines, named = [], ""
    for layer in layers:
        row = summary.worst(layer=layer, releases="all")
        if row is None:
            lines.append(Text("" if summary.is_baseline else "–", "dim"))
            continue
        # Its arrow stands in front of the interval below it.
        lines += [Text.assemble(_leak(row, row.leak_auc, above=" "), layer), *_ends(row)]
        if row.attack is not None and row.attack != named:
            named = row.attack
            lines += [Text(f" {piece}") for piece in _broken(printable(named), max(fragment, 10))]
    return Text("\n").join(lines)


def _ends(row: FindingRow) -> list[Text]:
    """The interval of a leak AUC above its bound, in the eleven characters that a column has."""
    if not above_bound(row) or row.leak_auc_low is None:
        return []
    low, high = (number(end).removeprefix("0") for end in (row.leak_auc_low, row.leak_auc_high))
    return [Text(f"{BOUND_MARK}{low}–{high}")]


def _guarantee(summary: ProtectionSummary) -> Text:
    """Kind and bound for the whole training, then the worst canary AUC with its mark."""
    bound = summary.bound("all")
    if bound is None:
        lines = [Text("not stated", "dim")]
    else:
        style = {"rigorous": "green", "model": "yellow", "none": "red"}[bound.kind]
        lines = [Text(bound.kind, style)]
        if bound.leak_auc is not None:
            lines.append(Text(f"≤ {number(bound.leak_auc)}"))
        if summary.beaten:
            lines.append(Text("beaten", "bold red"))
    if (check := summary.worst_canary) is not None:
        mark, style = {
            "within": ("ok", "green"),
            "above": ("ABOVE", "bold red"),
            "no bound": ("", ""),
            "no test": ("–", "dim"),
        }[check.standing]
        lines += [Text.assemble("● ", number(check.leak_auc), " ", (mark, style))]
        lines += _ends(check.row)
    return Text("\n").join(lines)


def _above_in_one_release(findings: Findings, summaries: list[ProtectionSummary]) -> list[Text]:
    """The intervals of the columns' leak AUCs above their bound, a line for each protection."""
    lines, attacks = [], _shown_attacks(findings, summaries)
    for summary in summaries:
        cells = [summary.cell(attack, layer="cut", releases="one") for attack in attacks]
        if known := listed([row for row in cells if row is not None]):
            about = (f"{BOUND_MARK} {printable(summary.label)}, one release: ", "yellow")
            lines.append(Text.assemble(about, f"{printable(known)}."))
    return lines


def _legend(findings: Findings) -> Text:
    """What the numbers mean, in a few plain sentences; the page has a glossary."""
    coins = any(row.target == "canaries" for row in findings.rows)
    sentences = [
        (
            "Leak AUC: the share of pairs of a positive and a negative record that an attack tells "
            "apart; 0.5 is guessing, 1 gives every label away."
        ),
        f"Dim, {CHANCE_MARK}: 95 % of attackers who know nothing reach as much.",
        f"All: {over('all', seen_by(findings))}, scores averaged over visits.",
        "Guarantee: rigorous is proven, model holds under assumptions only.",
    ]
    if any(summary.test_interval for summary in by_protection(findings)):
        sentences.append(
            "Test AUC: ± is the standard error over splits, the range below it the 95 % interval "
            "from the test records of one split."
        )
    if any(above_bound(row) for row in findings.rows):
        sentences.append(
            f"{BOUND_MARK}: above the bound that is stated for as many releases; the 95 % interval "
            "stands beside it or below."
        )
    if coins:
        sentences.append(
            "● canaries, records with a coin for a label: ok, or ABOVE the bound + "
            f"{CANARY_DEVIATIONS} deviations of chance; – where that reaches 1."
        )
    attacks, shown = attacks_of(findings), _shown_attacks(findings, by_protection(findings))
    if len(shown) < len(attacks):
        sentences.append(f"{len(attacks)} attacks were run; the page has all.")
    return Text(" ".join(sentences), "dim")


def _broken(name: str, longest: int) -> list[str]:
    """A name in lines of ``longest`` characters or one word, broken behind ``_``, ``=``, space."""
    pieces, line = [], ""
    for part in re.split(r"(?<=[_= ])", name):
        if line and len((line + part).rstrip()) > longest:
            pieces.append(line.rstrip())
            line = ""
        line += part
        while len(line) > _LONGEST_WORD:
            pieces.append(line[: _LONGEST_WORD - 1] + "-")
            line = line[_LONGEST_WORD - 1 :]
    return [*pieces, line]


def _side_by_side(columns: list[list[Text]], widths: list[int]) -> list[Text]:
    """Lines made of columns, each set flush right to its width and to the bottom."""
    height = max(len(column) for column in columns)
    lines = []
    for index in range(height):
        line = Text()
        for column, width in zip(columns, widths, strict=True):
            above = height - len(column)
            cell = column[index - above].copy() if index >= above else Text()
            cell.pad_left(width - len(cell))
            line.append_text(cell).append(" ")
        line.rstrip()
        lines.append(line)
    return lines
