"""The page of a sweep: warnings, claims, tables and figures in one HTML file."""

from importlib.metadata import version
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from cutlayer.durable import whole_file
from cutlayer.experiments.tradeoff.choices import choices_of
from cutlayer.experiments.tradeoff.claims import claims_of
from cutlayer.experiments.tradeoff.clear_wide_logit import WARNING
from cutlayer.experiments.tradeoff.drawing import Drawing
from cutlayer.experiments.tradeoff.records import on_images
from cutlayer.experiments.tradeoff.run_figures import run_drawings
from cutlayer.experiments.tradeoff.summary import (
    MIN_SEEDS,
    WORST,
    Estimate,
    Point,
    Summary,
    attack_names,
)
from cutlayer.experiments.tradeoff.tables import write_tables
from cutlayer.experiments.tradeoff.utility_curves import (
    STATISTIC_NAMES,
    seeds_in_words,
    utility_drawings,
)
from cutlayer.protections import NoNoise
from cutlayer.reports.wording import printable

PAGE_FILE, FIGURES = "report.html", "figures"

PROTOCOL_WARNING = (
    "Measured as the paper's code does: the known positive's row stays in the leak AUC, the "
    "headline is the 95th percentile over batches, Marvell takes its statistics from each batch "
    "alone. Such numbers compare with the paper; they are no statement on a real training."
)
SIMULATION_WARNING = "A simulation in one process with repeatable noise: it protects nothing."


def write_report(summary: Summary, folder: Path) -> Path:
    """Write tables, figures and the page into the sweep's folder.

    Args:
        summary: of the sweep.
        folder: of the sweep; old files are replaced.

    Returns:
        The page.

    Raises:
        DataError: a file of a run is damaged.
    """
    write_tables(summary, folder)
    drawings = drawings_of(summary, folder)
    (folder / FIGURES).mkdir(exist_ok=True)
    for drawing in drawings:
        drawing.save(folder / FIGURES)
    page = folder / PAGE_FILE
    with whole_file(page) as partial:
        partial.write_text(render_page(summary, drawings), encoding="utf-8")
    return page


def drawings_of(summary: Summary, folder: Path) -> list[Drawing]:
    """Every figure for which there are results."""
    if not summary.points:
        return []
    return [*utility_drawings(summary), *run_drawings(summary, folder)]


def warnings_of(summary: Summary) -> list[str]:
    """What a reader must know before any number."""
    warnings = [SIMULATION_WARNING]
    configuration = summary.configuration
    if configuration.paper_protocol:
        warnings.append(PROTOCOL_WARNING)
        if configuration.model in ("wide_deep", "paper") and not on_images(configuration):
            warnings.append(WARNING)
    if configuration.audit_every > 1:
        warnings.append(
            f"One batch of every {configuration.audit_every} was attacked. The leak of the whole "
            "training averages over that share of the visits, and is higher for an attacker who "
            "keeps all."
        )
    warnings += dict.fromkeys(
        line for point in summary.points for result in point.results for line in result.giveaways
    )
    if any(len(point.results) < MIN_SEEDS for point in summary.points):
        warnings.append(
            f"With fewer than {MIN_SEEDS} seeds there is no interval of a mean: what stands beside "
            "it is the range of the values."
        )
    if any(not _learned(point) for point in summary.of(NoNoise.name)):
        warnings.append(
            "Without protection the test AUC is not clearly above .5: the network has hardly "
            "learned, so that costs, and claims about the test AUC, say nothing. Train longer, "
            "with a higher learning_rate or more rows."
        )
    warnings += [
        f"{point.label} has test loss {point.quality('test_loss').mean:.3f}, above the "
        f"{point.base_loss:.3f} of the share of positives alone: its probabilities mislead."
        for point in summary.points
        if point.base_loss is not None and point.quality("test_loss").mean > point.base_loss
    ]
    if summary.failures:
        warnings.append(f"{len(summary.failures)} of {summary.runs} runs failed; see below.")
    left = summary.runs - summary.done - len(summary.failures)
    if left:
        warnings.append(f"{left} of {summary.runs} runs are not done yet.")
    return warnings


def _learned(point: Point) -> bool:
    """Whether a network orders test records better than chance, all intervals considered."""
    auc = point.quality("test_auc")
    return (auc.mean if auc.low is None else auc.low) > 0.5


def render_page(summary: Summary, drawings: list[Drawing]) -> str:
    """The page as text."""
    loaders = [
        PackageLoader("cutlayer.experiments.tradeoff", "."),
        PackageLoader("cutlayer.reports", "."),  # the style sheet
    ]
    environment = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"estimate": estimate_text, "printable": printable}
    settings = summary.configuration.model_dump(mode="json", exclude_none=True)
    return environment.get_template("tradeoff.html.jinja").render(
        summary=summary,
        title=summary.configuration.title,
        warnings=warnings_of(summary),
        choices=choices_of(summary),
        claims=claims_of(summary),
        attacks=[WORST, *(name for name in attack_names() if name != WORST)],
        seeds=seeds_in_words(summary),
        statistics=(summary.headline, "all_releases"),
        statistic_names=STATISTIC_NAMES,
        drawings=drawings,
        settings=settings,
        version=version("cutlayer"),
    )


def estimate_text(estimate: Estimate | None) -> str:
    """Mean and half its 95 % interval, or the range of two; a dash where nothing was measured.

    >>> estimate_text(Estimate(0.75, 0.7, 0.8, 3))
    '0.750 ± 0.050'
    >>> estimate_text(Estimate(0.75, 0.7, 0.8, 2))
    '0.750 (0.700 to 0.800)'
    >>> estimate_text(Estimate(-0.0001, None, None, 1))
    '0.000'
    """
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:z.3f}"
    if not estimate.is_interval:
        return f"{estimate.mean:z.3f} ({estimate.low:z.3f} to {estimate.high:z.3f})"
    return f"{estimate.mean:z.3f} ± {estimate.high - estimate.mean:.3f}"
