"""Feature screening: which columns something can be learned from, and what to say of each."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from cutlayer.data.tables.cell_values import CellRules
from cutlayer.data.tables.code_columns import different_codes
from cutlayer.data.tables.column_choice import Kind
from cutlayer.data.tables.column_notices import ColumnNotice
from cutlayer.data.tables.column_reading import Cells
from cutlayer.data.tables.text_patterns import Look, look_of

MIN_ID_LIKE_ROWS: Final = 20
"""Below so many rows, texts that all differ prove nothing."""
ID_LIKE_SHARE: Final = 0.95
"""A text column is like an id where so many of its values differ."""

_MOSTLY: Final = 0.5


def screened(
    column: pl.Series,
    kind: Kind,
    rules: CellRules,
    *,
    other: Cells | None = None,
    leading_zero: Cells | None = None,
    leaves_out: bool = True,
) -> tuple[bool, ColumnNotice | None]:
    """Whether something can be learned from a column, and what to say of it, if anything.

    ====================================  ======================================================
    column                                decision
    ====================================  ======================================================
    no value at all                       dropped
    one value, none missing               dropped
    one value, some missing               kept: being missing may tell
    texts, 95 % of 20 or more differ      dropped as a name of the record, unless ``categorical``
    20 or more whole numbers, each once,  dropped as a row number, unless ``numeric``
    without a gap
    texts that look like dates            kept as categories, with a notice
    texts that look like numbers          kept as categories, with a notice, unless ``categorical``
    mostly numbers, some texts            kept as categories, with a notice, unless ``categorical``
    whole numbers written ``01234``       kept as numbers, with a notice, unless ``numeric``
    whole numbers that may be codes       kept as numbers, with a notice, unless ``numeric``
    ====================================  ======================================================

    Args:
        column: numbers or categories, null where missing.
        kind: what the user says about it.
        rules: how a number is written.
        other: where it became categories by inference: cells that are no numbers.
        leading_zero: where it became numbers by inference: cells that are written as codes are.
        leaves_out: whether such a column is left out, or kept with a notice.
    """
    found = _nothing_to_learn(column) or _names_rows(column, kind, rules, other)
    if found is not None:
        return not leaves_out, found.notice(column.name, leaves_out=leaves_out)
    return True, _doubt(column, kind, rules, other, leading_zero)


@dataclass(frozen=True)
class _Useless:
    """Why nothing can be learned from a column."""

    alone: str
    """Of one column, to follow "because"."""
    together: str
    """Of many."""
    detail: str = ""
    unless: Kind | None = None
    """What the user may say to keep it."""
    advice: tuple[str, str] = ("", "")
    """What to do about it, in sentences, of one column and of many."""

    def notice(self, name: str, *, leaves_out: bool) -> ColumnNotice:
        """What is said of it."""
        decision = "left out, because" if leaves_out else "kept, though"
        if not leaves_out:
            end = "" if any(self.advice) else " List {} under drop."
        elif self.unless is not None:
            end = f" List {{}} under {self.unless} to keep {{}}."
        else:
            end = ""
        one, many = (f" {text}" if text else "" for text in self.advice)
        return ColumnNotice(
            name,
            f"{decision} {self.alone}.{end.format('it', 'it')}{one}",
            f"{decision} {self.together}.{end.format('them', 'them')}{many}",
            self.detail,
        )


def _nothing_to_learn(column: pl.Series) -> _Useless | None:
    """A column whose rows do not differ."""
    cells = column.alias("cells")
    if cells.null_count() == len(cells):
        return _Useless("all of its cells are empty", "all of their cells are empty")
    if cells.null_count() == 0 and cells.n_unique() == 1:
        held = repr(cells[0])
        return _Useless(f"all of its cells hold {held}", "all cells of each are equal", held)
    return None


def _names_rows(
    column: pl.Series, kind: Kind, rules: CellRules, other: Cells | None
) -> _Useless | None:
    """A column that calls each record by a name of its own, or numbers the records."""
    cells = column.alias("cells")
    present = len(cells) - cells.null_count()
    if present < MIN_ID_LIKE_ROWS:
        return None
    different = cells.n_unique() - (cells.null_count() > 0)
    if cells.dtype == pl.Categorical and kind != "categorical":
        if different <= ID_LIKE_SHARE * present:
            return None
        found = f"{different:,} different texts in {present:,} rows are"
        look = look_of(cells, rules.decimal)
        if look is not None:
            return _Useless(
                f"{found} no categories; they look like {look.what}, such as {look.example!r}",
                f"nearly all of their texts differ; they look like {look.what}",
                repr(look.example),
                advice=(look.fix, look.fix),
            )
        doubt = None if other is None else mostly_numbers(column, other, rules)
        also = ("", "") if doubt is None else (f"It is {doubt.alone}", f"They are {doubt.together}")
        return _Useless(
            f"{found} names of records, not categories",
            "nearly all of their texts differ, as names of records do",
            "" if doubt is None else doubt.detail,
            unless="categorical",
            advice=also,
        )
    if cells.dtype.is_integer() and kind != "numeric" and different == len(cells):
        low, high = int(str(cells.min())), int(str(cells.max()))
        if high - low == different - 1:
            return _Useless(
                f"it numbers the rows from {low} to {high} without a gap",
                "they number the rows without a gap",
                unless="numeric",
            )
    return None


def _doubt(
    column: pl.Series,
    kind: Kind,
    rules: CellRules,
    other: Cells | None,
    leading_zero: Cells | None,
) -> ColumnNotice | None:
    """What may be wrong with the way in which a column is kept."""
    if column.dtype == pl.Categorical:
        look = look_of(column, rules.decimal)
        if look is not None and (kind == "infer" or look.is_moment):
            return _looks(column.name, look)
        return None if other is None else mostly_numbers(column, other, rules)
    if kind != "infer":
        return None
    if leading_zero is not None:
        return ColumnNotice(
            column.name,
            f"read as numbers, though {leading_zero.first}, as codes begin. List it under "
            "categorical if it holds codes, or under numeric if not.",
            "read as numbers, though some begin with a 0, as codes do. List them under categorical "
            "if they hold codes, or under numeric if not.",
            leading_zero.first,
        )
    different = different_codes(column)
    if different is None:
        return None
    return ColumnNotice(
        column.name,
        f"its {different:,} different whole numbers are read as numbers, with an order. List it "
        "under categorical if they are codes, or under numeric if not.",
        "whole numbers of few different values, read as numbers, with an order. List the columns "
        "under categorical if they hold codes, or under numeric if not.",
        f"{different:,} values",
        group_from=2,
    )


def _looks(name: str, look: Look) -> ColumnNotice:
    """Texts that look like numbers or dates, and stay categories."""
    return ColumnNotice(
        name,
        f"read as categories, but {look.sentences}",
        f"read as categories, but look like {look.what}. {look.fix}",
        repr(look.example),
    )


def mostly_numbers(column: pl.Series, other: Cells, rules: CellRules) -> ColumnNotice | None:
    """What to say about categories most of which are numbers; ``None`` where they are not.

    Args:
        column: categories.
        other: the cells that are no numbers.
        rules: how a number is written.
    """
    counts = column.alias("value").drop_nulls().value_counts(name="rows")
    texts = counts["value"].cast(pl.String)
    numbers = rules.numbers_from(texts).is_not_null()
    share = float(counts["rows"].filter(numbers).sum()) / max(1, len(column) - column.null_count())
    if share < _MOSTLY:
        return None
    return ColumnNotice(
        column.name,
        f"read as categories, because {other.first}, though {share:.0%} of its values are numbers. "
        f"List it under categorical if that is right; if not, mend the cells or list "
        f"{other.text!r} under missing.",
        f"read as categories, because some cells hold {other.text!r}, though most of their values "
        f"are numbers. List {other.text!r} under missing, or mend the cells; if they are "
        "categories, list them under categorical.",
        f"{share:.0%} numbers",
    )
