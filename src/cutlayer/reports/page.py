"""The findings as one HTML page that needs no network, no script and no other file."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cutlayer.audits.findings import FindingRow, Findings, Layer
from cutlayer.reports import figures, wording
from cutlayer.reports.summary import (
    CANARY_DEVIATIONS,
    ProtectionSummary,
    Releases,
    attacks_of,
    below_floor,
    by_protection,
    layers_of,
)
from cutlayer.reports.utility_figure import utility_beside_leak


@dataclass(frozen=True)
class LeakTable:
    """Leak AUC of each attack on each protection, at one layer and for one count of releases."""

    layer: Layer
    releases: Releases
    lines: list[tuple[ProtectionSummary, list[FindingRow | None]]]


def write_page(findings: Findings, path: Path) -> None:
    """Write the page whole or not at all.

    Args:
        findings: the document; everything on the page comes from it.
        path: the file, such as ``report.html``; an old one is replaced.
    """
    page = render_page(findings)
    partial = path.with_suffix(".partial")
    partial.write_text(page, encoding="utf-8")
    partial.replace(path)


def render_page(findings: Findings) -> str:
    """The page as text; the same document gives the same bytes."""
    environment = Environment(
        loader=PackageLoader("cutlayer.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "number": wording.number,
        "estimate": wording.estimate,
        "bound": wording.bound_words,
        "share": _share,
    }
    environment.tests |= {"below_floor": below_floor}
    summaries = by_protection(findings)
    return environment.get_template("page.html.jinja").render(
        f=findings,
        summaries=summaries,
        verdicts={verdict.about: verdict for verdict in wording.verdicts(findings)},
        lead=wording.lead(findings),
        gaps=wording.not_measured(findings),
        attacks=attacks_of(findings),
        leak_tables=list(_leak_tables(findings, summaries)),
        names={
            "layer": wording.LAYER_NAMES,
            "releases": wording.RELEASE_NAMES,
            "target": wording.TARGET_NAMES,
            "kind": wording.KIND_NAMES,
        },
        deviations=CANARY_DEVIATIONS,
        figures=_figures(findings),
        versions={"cutlayer": version("cutlayer"), "matplotlib": version("matplotlib")},
    )


def _leak_tables(findings: Findings, summaries: list[ProtectionSummary]) -> Iterator[LeakTable]:
    """One table for each layer and count of releases that was measured."""
    attacks, attacked = attacks_of(findings), [s for s in summaries if s.attacked]
    both: tuple[Releases, Releases] = ("one", "all")
    for layer in layers_of(findings):
        for releases in both:
            lines = [
                (s, [s.cell(attack, layer=layer, releases=releases) for attack in attacks])
                for s in attacked
            ]
            measured = [(s, cells) for s, cells in lines if any(cells)]
            if measured:
                yield LeakTable(layer, releases, measured)


def _figures(findings: Findings) -> dict[str, list[figures.Panel]]:
    """Every figure of the page; a list is empty where the document has no data for it."""
    utility = utility_beside_leak(findings)
    return {
        "attacks": figures.attack_swatches(findings) if findings.curves else [],
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
