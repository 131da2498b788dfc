"""A table file: how to read one party's CSV or Parquet file into a party table."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from cutlayer.data.column_encoding import CategoricalColumn
from cutlayer.data.encoding import Encoder
from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName
from cutlayer.data.tables.cell_values import CellRules, Decimal
from cutlayer.data.tables.column_choice import ROW_NUMBER, ColumnChoice, ColumnRules
from cutlayer.data.tables.column_reading import read_columns
from cutlayer.data.tables.delimited_text import TextFormat
from cutlayer.data.tables.file_message import FileMessage, listing
from cutlayer.data.tables.label_values import Positive
from cutlayer.data.tables.new_records import without_slot, without_value
from cutlayer.data.tables.opening import open_table
from cutlayer.data.tables.record_blocks import ENCODINGS, Encoding
from cutlayer.data.tables.record_ids import canonical_ids
from cutlayer.data.tables.table_assembly import TableAssembly, TableReading, require_unique
from cutlayer.data.tables.table_source import TableSource
from cutlayer.data.text_sequence import TextSequence
from cutlayer.errors import ConfigurationError

_SHOWN = 10


@dataclass(frozen=True)
class TableFile:
    r"""How to read one party's file. Without further options, one with a header reads itself.

    A file is Parquet if it begins and ends with ``PAR1``, else a delimited text; gzip is known by
    its content, not by its name. The file is gone through in pieces, and only the columns that are
    needed stay in memory: numbers as float64, or in the smallest whole kind that holds them;
    categories in 4 bytes a row.

    ============================  ================================================================
    in the file                   decision
    ============================  ================================================================
    all present values numbers    numeric, few different whole numbers too
    any other text                categorical, with a notice where most values are numbers
    ``NaN``, ``inf`` as a number  error, unless listed under ``missing``
    empty cell                    missing
    ids                           always texts (``007`` stays), canonical: spaces around taken off
    id, label or group missing    error that names the lines
    blank line                    left out, with a notice (not at the end of the file)
    column of one value, or none  left out, with a notice
    column like an id             left out, with a notice
    date, list, bytes (Parquet)   left out, with a notice
    numbers with a comma, a sign  categorical, with a notice that says which key reads them
    whole numbers, few different  numeric, with a notice where they may be codes
    column that tells the label   kept, with a notice
    ============================  ================================================================

    Raises:
        ConfigurationError: an option breaks its rule, or two contradict each other.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bank.csv"
    >>> _ = path.write_text("client;age;job;y\n007;31;farmer;yes\n008;45;?;no\n")
    >>> file = TableFile(path, "client", label_column="y", missing=("?",))
    >>> table = file.read("label party").table
    >>> table.ids, table.features["age"].to_list(), table.labels
    (TextSequence(['007', '008']), [31, 45], tensor([1, 0]))
    """

    path: Path
    """The file; a text is turned into a path."""
    id_column: str
    """The column that both parties have in common, or ``ROW_NUMBER`` for a file without one."""
    label_column: str | None = None
    """At the label party only."""
    positive: Positive | None = None
    """The label's value that is positive. ``None`` understands 1/0, true/false and yes/no."""
    negative: Literal["rest"] | None = None
    """``"rest"``: all values but ``positive`` are negative. ``None``: the label has two values."""
    group_column: str | None = None
    """Records that must stay together in a split, such as those of one patient; no feature."""
    delimiter: str | None = None
    """``None``: comma, semicolon, tabulator or vertical bar, found from the first lines."""
    header: bool = True
    """Whether the first line holds the names. If not, they are ``c1``, ``c2`` ... by position."""
    column_names: tuple[str, ...] | None = None
    """Names for a file without a header."""
    quote: str = '"'
    """What a text that holds a delimiter or a line end stands between; ``""`` for nothing."""
    encoding: Encoding = "utf-8"
    decimal: Decimal = "."
    """What stands in front of a number's fraction."""
    missing: tuple[str, ...] = ("",)
    """Texts that mean "missing", letter for letter (``NaN``, ``?``); where Parquet stores numbers,
    the numbers that they write. An empty cell is missing in any case."""
    strip: bool = True
    """Whether spaces around a text are no part of it."""
    keep: tuple[str, ...] = ()
    """The only columns to learn from, as names or shell patterns (``PAY_*``). Empty: all."""
    drop: tuple[str, ...] = ()
    """Columns not to learn from, as names or shell patterns; goes before ``keep``."""
    numeric: tuple[str, ...] = ()
    """Columns that must hold numbers: text in them is an error. Names or shell patterns."""
    categorical: tuple[str, ...] = ()
    """Columns that are categories even where they hold numbers. Names or shell patterns."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path).expanduser())
        for name in ("column_names", "missing", "keep", "drop", "numeric", "categorical"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ConfigurationError(f"{name} must be a list of texts, got the text {value!r}.")
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        self._check_signs()
        self._check_roles()

    def read(
        self, party: PartyName, *, labelled: bool = True, trained: Encoder | None = None
    ) -> TableReading:
        """Read the file as the table of this party.

        Args:
            party: who owns the file; the label party must name a label column, the other one not.
            labelled: ``False`` for records of the label party that are to be predicted: their
                label column is not read, and need not be in the file.
            trained: what a model was trained with: then exactly its columns are read, as the kinds
                they had, however few records there are; nothing is screened, ``keep``, ``drop``,
                ``numeric`` and ``categorical`` are not looked at, and labels are not read.

        Returns:
            The table, rows as in the file, and the notices.

        Raises:
            ConfigurationError: a label column is named at the non-label party, or none at the label
                party.
            DataError: the file is missing, damaged, empty, or breaks one of the rules above; a
                column is not in it; an id repeats; no column is left at the non-label party. The
                message names party, file, column, line, rule and fix.
        """
        self._check_party(party)
        message = FileMessage(party, self.path)
        source = self._source(message)
        rules_of_columns = self._column_rules()
        if trained is not None:
            labelled = False
            rules_of_columns = replace(
                rules_of_columns, label_column=None, keep=(), drop=(), numeric=(), categorical=()
            )
        elif not labelled and self.label_column is not None:
            present = (self.label_column,) if self.label_column in source.names else ()
            rules_of_columns = replace(
                rules_of_columns, label_column=None, drop=(*self.drop, *present)
            )
        choice = rules_of_columns.applied_to(source.names, message, source.hint)
        if trained is not None:
            absent = [name for name in trained.kinds if name not in source.names]
            if absent:
                known = {*trained.kinds, *choice.texts, self.label_column}
                new = [name for name in source.names if name not in known]
                raise message.error(
                    f"{len(absent)} of the {len(trained.kinds)} columns that the model was trained "
                    f"with are not in it: {listing(absent, shown=_SHOWN)}. "
                    + (f"Was one renamed? It also holds {listing(new)}. " if new else "")
                    + "Add the columns, with empty cells if nothing is known."
                )
            choice = replace(choice, features=trained.kinds, trained=True)
        if party == NON_LABEL_PARTY and not choice.features:
            raise message.error(
                f"must hold a column to learn from, but of {listing(source.names)} the options "
                "leave none. Look at keep and drop."
            )
        rules = CellRules(self.missing, self.strip, self.decimal)
        columns = read_columns(source, choice, message, rules)
        notices = list(source.notices)
        if trained is not None:
            notices += _unlike_training(columns.features, trained, message)
        screened = trained is None
        assembly = TableAssembly(columns, choice, rules, message, notices, screened=screened)
        if not labelled:
            return assembly.reading(positive=None, negative=None)
        return assembly.reading(positive=self.positive, negative=self.negative)

    def read_ids(self, party: PartyName) -> TextSequence:
        """Read the ids of this party's records, and no other column.

        Returns:
            The ids in the order of the file, canonical and unique.

        Raises:
            ConfigurationError: the records are to be called by their row number, which is no id.
            DataError: the file is missing, damaged or empty; it has no such column; an id is
                missing or repeats.
        """
        message = FileMessage(party, self.path)
        if self.id_column == ROW_NUMBER:
            raise ConfigurationError(
                f"{party}, file {self.path}: id must name a column to find shared records by, but "
                f"is {ROW_NUMBER!r}. Name a column that both files have."
            )
        source = self._source(message)
        if self.id_column not in source.names:
            raise message.no_such_column(self.id_column, source.names, hint=source.hint)
        choice = ColumnChoice(self.id_column, None, None, {})
        columns = read_columns(source, choice, message, CellRules())
        ids = canonical_ids(columns.texts[self.id_column])
        require_unique(ids, message, self.id_column)
        return ids

    def _source(self, message: FileMessage) -> TableSource:
        """The file as batches of columns, whatever its format."""
        form = TextFormat(
            self.delimiter,
            self.quote,
            self.encoding,
            self.header,
            self.column_names,
            # Known by name: any other column alone is more likely a delimiter that was not found.
            may_stand_alone=tuple(filter(None, (self.id_column, self.label_column))),
        )
        return open_table(self.path, form, message)

    def _column_rules(self) -> ColumnRules:
        """What the options say about columns."""
        return ColumnRules(
            id_column=self.id_column,
            label_column=self.label_column,
            group_column=self.group_column,
            keep=self.keep,
            drop=self.drop,
            numeric=self.numeric,
            categorical=self.categorical,
        )

    def _check_signs(self) -> None:
        """Hold the options about how the text is written to their rules."""
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote or None)):
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n"):
                raise ConfigurationError(
                    f"{name} must be one ASCII sign other than a line end, got {value!r}."
                )
        if self.delimiter is not None and self.delimiter == self.quote:
            raise ConfigurationError(f"delimiter and quote must differ, both are {self.quote!r}.")
        for name, value, known in (
            ("encoding", self.encoding, ENCODINGS),
            ("decimal", self.decimal, get_args(Decimal)),
            ("negative", self.negative, (None, "rest")),
        ):
            if value not in known:
                raise ConfigurationError(f"{name} must be one of {listing(known)}, got {value!r}.")
        names = self.column_names
        if names is not None and self.header:
            raise ConfigurationError(
                "column_names are for a file without a header; set header=False, or leave them out."
            )
        if names is not None and len(set(names)) < len(names):
            raise ConfigurationError(f"column_names must differ, got {listing(names, shown=9)}.")

    def _check_roles(self) -> None:
        """Hold the options about id, label and group to their rules."""
        roles = [
            name
            for name in (self.id_column, self.label_column, self.group_column)
            if name is not None
        ]
        if len(set(roles)) < len(roles):
            raise ConfigurationError(
                f"id_column, label_column and group_column must differ, got {listing(roles)}."
            )
        if self.label_column is None and not (self.positive is None and self.negative is None):
            raise ConfigurationError("positive and negative need a label_column; it is not set.")
        if self.negative is not None and self.positive is None:
            raise ConfigurationError("negative='rest' needs positive: all but which value?")

    def _check_party(self, party: PartyName) -> None:
        """The label party has a label column, the other party none."""
        if party == LABEL_PARTY and self.label_column is None:
            raise ConfigurationError(
                f"{party}, file {self.path}: label_column must name the label. Set label_column."
            )
        if party == NON_LABEL_PARTY and self.label_column is not None:
            raise ConfigurationError(
                f"{party}, file {self.path}: label_column must not be set, as only the label party "
                f"has labels, but it is {self.label_column!r}. Leave it out."
            )


def _unlike_training(
    columns: Iterable[pl.Series], trained: Encoder, message: FileMessage
) -> Iterator[str]:
    """Notices for columns whose cells are missing, or of categories that the training lacks."""
    fitted = {column.name: column for column in trained.columns}
    for column in columns:
        known = fitted.get(column.name)
        if known is None:
            continue
        told = [without_value(column, known)]
        if isinstance(known, CategoricalColumn):
            told.append(without_slot(column, known))
        yield from (message.notice(one, column=column.name) for one in told if one is not None)
