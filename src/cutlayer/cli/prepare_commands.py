"""The commands that turn raw data as downloaded into shards: prepare criteo, avazu, isic, table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from cutlayer.cli.console import screen
from cutlayer.cli.exit_status import INTERRUPTED
from cutlayer.cli.option_groups import OptionGroup, spread
from cutlayer.cli.progress_display import ProgressDisplay
from cutlayer.data.prepared import PreparedData
from cutlayer.data.tables.cell_values import Decimal
from cutlayer.data.tables.column_choice import ROW_NUMBER
from cutlayer.data.tables.record_blocks import Encoding
from cutlayer.preparation import (
    AVAZU_CUT,
    CRITEO_CUT,
    ImageOptions,
    Prepared,
    RawTable,
    SplitOptions,
    TableColumns,
    TableOptions,
    avazu,
    criteo,
    prepare_images,
    prepare_table,
    raw_images,
    table,
)
from cutlayer.preparation.options import Numbers, Vocabulary

prepare_app = typer.Typer(
    help="Turn raw data as downloaded into one folder of shards for each party.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="As downloaded; plain or gzip.")]
Out = Annotated[Path, typer.Option(help="Folder to make. The same command goes on if killed.")]
LabelParty = Annotated[
    list[str] | None,
    typer.Option(
        "--label-party",
        help="Features of the label party, as a name or shell pattern; repeat for several. "
        "'' for none.",
    ),
]
NumbersKind = Annotated[
    str, typer.Option("--numbers", help="min-max, log or as-is; a missing number is 0.")
]
MaxRejects = Annotated[float, typer.Option(help="Largest share of dirty rows to go on with.")]

_TABLE, _IMAGES, _SPLIT = TableOptions(), ImageOptions(), SplitOptions()


@dataclass(frozen=True)
class Codes(OptionGroup):
    """How categories become codes."""

    vocabulary: Annotated[
        str, typer.Option("--vocabulary", help="exact, or hashed without a look at the values.")
    ] = _TABLE.vocabulary
    min_count: Annotated[
        int, typer.Option(help="Rarer values of training rows share one code.")
    ] = _TABLE.min_count
    hash_bits: Annotated[int, typer.Option(help="A hashed column has 2 to this power codes.")] = (
        _TABLE.hash_bits
    )


@dataclass(frozen=True)
class Parts(OptionGroup):
    """Which records train, validate and test."""

    validation: Annotated[float, typer.Option(help="Share of the records that validate.")] = (
        _SPLIT.validation
    )
    test: Annotated[float, typer.Option(help="Share of the records that test.")] = _SPLIT.test
    folds: Annotated[
        int | None, typer.Option(help="In place of shares: so many parts, of which one tests.")
    ] = None
    test_fold: Annotated[int, typer.Option(help="The fold that tests, from 0.")] = 0
    seed: Annotated[int, typer.Option(help="Of the split, and of which images are kept.")] = 0

    @property
    def split(self) -> SplitOptions:
        """The same, checked."""
        return SplitOptions(self.seed, self.validation, self.test, self.folds, self.test_fold)


@prepare_app.command("criteo")
@spread
def prepare_criteo(
    *,
    file: File,
    out: Out = Path("criteo"),
    label_party: LabelParty = None,
    numbers: NumbersKind = _TABLE.numbers,
    codes: Codes,
    parts: Parts,
    max_rejects: MaxRejects = _TABLE.max_rejects,
) -> None:
    """Criteo's click log: tab-separated, no header, label, I1-I13, C1-C26."""
    raw = criteo(file, CRITEO_CUT if label_party is None else label_party)
    _prepare(raw, out, _options(numbers, codes, parts, max_rejects))


@prepare_app.command("avazu")
@spread
def prepare_avazu(
    *,
    file: File,
    out: Out = Path("avazu"),
    label_party: LabelParty = None,
    codes: Codes,
    parts: Parts,
    max_rejects: MaxRejects = _TABLE.max_rejects,
) -> None:
    """Avazu's click log: CSV with a header of 24 columns, the label is click."""
    raw = avazu(file, AVAZU_CUT if label_party is None else label_party)
    _prepare(raw, out, _options("as-is", codes, parts, max_rejects))


@prepare_app.command("table")
@spread
def prepare_any_table(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV with a header, or Parquet.")],
    label: Annotated[str, typer.Option(help="Column of the label.")],
    out: Out = Path("table"),
    id_column: Annotated[
        str, typer.Option("--id", help="Column of ids. Default: number of the row.")
    ] = ROW_NUMBER,
    positive: Annotated[
        str | None, typer.Option(help="The label's positive value; all others are negative.")
    ] = None,
    numeric: Annotated[list[str] | None, typer.Option(help="Columns of numbers.")] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="Columns of categories.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out.")] = None,
    missing: Annotated[list[str] | None, typer.Option(help="Text that means missing.")] = None,
    delimiter: Annotated[str | None, typer.Option(help="Default: found from the file.")] = None,
    decimal: Annotated[str, typer.Option(help="What stands before a number's fraction.")] = ".",
    quote: Annotated[str, typer.Option(help="What a text with a delimiter stands between.")] = '"',
    encoding: Annotated[str, typer.Option(help="utf-8, latin-1 or windows-1252.")] = "utf-8",
    label_party: LabelParty = None,
    numbers: NumbersKind = _TABLE.numbers,
    codes: Codes,
    parts: Parts,
    max_rejects: MaxRejects = _TABLE.max_rejects,
) -> None:
    """Any other table, cut into the columns of two parties."""
    columns = TableColumns(
        label=label,
        id=id_column,
        positive=positive,
        numeric=tuple(numeric or ()),
        categorical=tuple(categorical or ()),
        drop=tuple(drop or ()),
        missing=tuple(missing or ()),
        label_party=tuple(label_party or ()),
        delimiter=delimiter,
        decimal=cast(Decimal, decimal),
        quote=quote,
        encoding=cast(Encoding, encoding),
    )
    options = _options(numbers, codes, parts, max_rejects)
    with PreparationProgress(screen()) as progress:
        raw = table(file, columns, progress)
    for notice in raw.notices:
        screen().print(notice, style="yellow", soft_wrap=True)
    _prepare(raw, out, options)


@prepare_app.command("isic")
@spread
def prepare_isic(
    *,
    images: Annotated[
        Path,
        typer.Option(
            help="Folder of IMAGE_NAME.jpg; or with train/benign and train/malignant; or a Parquet "
            "file with JPEG bytes."
        ),
    ],
    label_table: Annotated[
        Path | None, typer.Option("--table", help="CSV with image_name and target.")
    ] = None,
    out: Out = Path("isic"),
    size: Annotated[int, typer.Option(help="Height and width in pixels.")] = _IMAGES.size,
    all_images: Annotated[
        bool, typer.Option("--all", help="Keep all, not 9 negatives for each positive.")
    ] = False,
    parts: Parts,
    max_rejects: MaxRejects = _IMAGES.max_rejects,
) -> None:
    """ISIC's skin images: the non-label party gets the images, the label party the labels."""
    options = ImageOptions(
        size=size,
        negatives_per_positive=None if all_images else _IMAGES.negatives_per_positive,
        split=parts.split,
        max_rejects=max_rejects,
    )
    _follow(
        lambda progress: prepare_images(raw_images(images, label_table), out, options, progress)
    )


class PreparationProgress(ProgressDisplay):
    """One line for each stage: a bar, the rows so far, and rows a second."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            console,
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]}"),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, tuple[TaskID, int]] = {}

    def __call__(self, stage: str, *, rows: int, done: int, total: int) -> None:
        """Move the bar of this stage."""
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total, rows=""), rows
        task, first = self._tasks[stage]
        elapsed = self._progress.tasks[self._progress.task_ids.index(task)].elapsed or 0.0
        rate = f", {(rows - first) / elapsed:,.0f} rows/s" if elapsed > 0 and rows > first else ""
        self._progress.update(task, completed=done, total=total, rows=f"{rows:,} rows{rate}")


def _options(numbers: str, codes: Codes, parts: Parts, max_rejects: float) -> TableOptions:
    """The options of a table; they check themselves."""
    return TableOptions(
        numbers=cast(Numbers, numbers),
        vocabulary=cast(Vocabulary, codes.vocabulary),
        min_count=codes.min_count,
        hash_bits=codes.hash_bits,
        split=parts.split,
        max_rejects=max_rejects,
    )


def _prepare(raw: RawTable, out: Path, options: TableOptions) -> None:
    """Prepare a table and say what was made; notices of the raw table were said before."""
    _follow(lambda progress: prepare_table(raw, out, options, progress), len(raw.notices))


def _follow(prepare: Callable[[PreparationProgress], Prepared], said: int = 0) -> None:
    """Show how a preparation goes on, and what it made; so many notices were said before."""
    console = screen()
    try:
        with PreparationProgress(console) as progress:
            made = prepare(progress)
    except KeyboardInterrupt:
        console.print("Interrupted. The same command goes on.")
        raise typer.Exit(INTERRUPTED) from None
    for notice in made.notices[said:]:
        console.print(notice, style="yellow", soft_wrap=True)
    _show(made, console)


def _show(made: Prepared, console: Console) -> None:
    """What was made, and what was left out."""
    console.print(f"{made.folder}: {PreparedData(made.folder).description}", soft_wrap=True)
    if made.rejected:
        console.print(
            f"Left out: {made.rejected:,} dirty rows, listed in {made.folder / 'rejects.csv'}.",
            style="yellow",
            soft_wrap=True,
        )
