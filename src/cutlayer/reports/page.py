"""The findings as one HTML page that needs no network, no script and no other file."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from cutlayer.audits.scope import Layer
from cutlayer.durable import whole_file
from cutlayer.extras import needing
from cutlayer.findings.document import FindingRow, Findings
from cutlayer.reports import bound_violations, phrases, wording
from cutlayer.reports.summary import (
    CANARY_DEVIATIONS,
    ProtectionSummary,
    Releases,
    above_bound,
    below_floor,
    by_protection,
    layers_of,
    seen_by,
    worst_first,
)
from cutlayer.reports.worth import base_loss, worth

if TYPE_CHECKING:
    from cutlayer.reports.figures import Panel


@dataclass(frozen=True)
class LeakTable:
    """Leak AUC of each attack on each protection, at one layer and for one count of releases."""

    layer: Layer
    releases: Releases
    protections: list[ProtectionSummary]
    lines: list[tuple[str, str, list[FindingRow | None]]]
    """Attack, what it needs, and a cell for each protection; the worst attack first."""
    floors: list[float | None]
    """The null floor of the worst attack on each protection."""


def write_page(findings: Findings, path: Path) -> None:
    """Write the page whole or not at all.

    Args:
        findings: the document; everything on the page comes from it.
        path: the file, such as ``report.html``; an old one is replaced.

    Raises:
        MissingExtraError: the extra "report" is not installed.
        StorageError: the file cannot be written.
    """
    page = render_page(findings)
    with whole_file(path) as partial:
        partial.write_text(page, encoding="utf-8")


def render_page(findings: Findings) -> str:
    """The page as text; the same document gives the same bytes.

    Raises:
        MissingExtraError: the extra "report" is not installed.
    """
    with needing():
        from jinja2 import Environment, PackageLoader, StrictUndefined
    environment = Environment(
        loader=PackageLoader("cutlayer.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "number": phrases.number,
        "estimate": wording.estimate,
        "bound": wording.bound_words,
        "interval": phrases.interval,
        "share": _share,
    }
    environment.tests |= {"below_floor": below_floor, "above_bound": above_bound}
    summaries = by_protection(findings)
    return environment.get_template("page.html.jinja").render(
        f=findings,
        summaries=summaries,
        verdicts={verdict.about: verdict for verdict in wording.verdicts(findings)},
        outcome=wording.outcome(findings),
        accounts=wording.accounts(findings),
        lead=wording.lead(findings),
        gaps=wording.not_measured(findings),
        worth=worth(findings),
        base_loss=base_loss(findings),
        layers=layers_of(findings),
        leak_tables=list(_leak_tables(findings, summaries)),
        names={
            "layer": wording.LAYER_NAMES,
            "releases": wording.release_names(seen_by(findings)),
            "target": wording.TARGET_NAMES,
            "kind": wording.KIND_NAMES,
        },
        deviations=CANARY_DEVIATIONS,
        bound_mark=bound_violations.BOUND_MARK,
        figures=_figures(findings),
        versions={"cutlayer": version("cutlayer"), "matplotlib": version("matplotlib")},
    )


def _leak_tables(findings: Findings, summaries: list[ProtectionSummary]) -> Iterator[LeakTable]:
    """One table for each layer and count of releases that was measured."""
    attacked = [s for s in summaries if s.attacked]
    both: tuple[Releases, Releases] = ("all", "one")
    for layer in layers_of(findings):
        for releases in both:
            shown = [s for s in attacked if s.worst(layer=layer, releases=releases)]
            lines = []
            for attack in worst_first(findings, shown, layer=layer, releases=releases):
                cells = [s.cell(attack, layer=layer, releases=releases) for s in shown]
                strongest = max(
                    (cell for cell in cells if cell is not None),
                    key=lambda cell: cell.leak_auc or 0.0,
                    default=None,
                )
                if strongest is not None:
                    lines.append((attack, strongest.needs or "–", cells))
            worst = [s.worst(layer=layer, releases=releases) for s in shown]
            floors = [row.null_floor if row else None for row in worst]
            if lines:
                yield LeakTable(layer, releases, shown, lines, floors)


def _figures(findings: Findings) -> "dict[str, list[Panel]]":
    """Every figure of the page; a list is empty where the document has no data for it."""
    # Here, since matplotlib takes a second to load and only a page that is written needs it.
    with needing():
        from cutlayer.reports import figures
    from cutlayer.reports.utility_figure import utility_beside_leak

    utility = utility_beside_leak(findings)
    return {
        "attacks": figures.attack_swatches(findings) if findings.curves else [],
        "visits": figures.leak_visits(findings),
        "curves": figures.leak_curves(findings),
        "coins": figures.leak_curves(findings, "canaries"),
        "classes": figures.class_swatches() if findings.histograms else [],
        "cut": figures.class_histograms(findings, "cut"),
        "first": figures.class_histograms(findings, "first"),
        "utility": [figures.Panel("utility", utility)] if utility else [],
    }


def _shown(value: object) -> object:
    """Take control characters out of every text that the template shows."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.printable(value)
    return value


def _share(leak_auc: float | None) -> str:
    """A leak AUC as a share of the way from guessing to a total leak, in percent."""
    return f"{200 * (min(1.0, max(0.5, leak_auc or 0.5)) - 0.5):.1f}%"
