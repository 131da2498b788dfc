"""How often the drop-ins released each record, and the end of a plan."""

import numbers
import re
import threading
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import Any, Final, Self, TypeAlias

from cutlayer.errors import ProtectionError

RecordId: TypeAlias = int | str
"""What names a record alike in every epoch."""
_WHOLE_NUMBER: Final = re.compile("0|-?[1-9][0-9]{0,599}")
"""How Python writes a whole number; of as many digits as it always converts."""
_COUNTING = threading.Lock()
"""One for all counts: a lock can be neither pickled nor made in compiled code."""


class VisitCount:
    """Counts the visits of each record, over all calls with one protection.

    A call that names its records counts one visit of each. A call that does not counts a share of
    a visit of *every* record: all of it, or 1/n where n calls make a pass over the data.

    The count stays with its protection: a copy counts together with its original, and a pickle
    keeps the count of its time. Each process counts for itself.
    """

    def __init__(self) -> None:
        self._named: Counter[RecordId] = Counter()
        self._most_named = 0
        self._of_every = Fraction(0)

    @property
    def most(self) -> int:
        """Visits of the record that was visited most, begun ones included."""
        return self._most_named + ceil(self._of_every)

    def add(self, records: Iterable[RecordId] | None, calls: int, plan: int | None) -> None:
        """Count one call, unless it passes the plan.

        Args:
            records: ids of its rows, or None where they are not known.
            calls: in one pass over all records; used where they are not known.
            plan: most visits of a record; None for no limit.

        Raises:
            ProtectionError: the call passes the plan; nothing is counted.
        """
        with _COUNTING:
            named = Counter(records)
            of_every = self._of_every + (Fraction(1, calls) if records is None else 0)
            visits = {one: self._named[one] + more for one, more in named.items()}
            record = max(visits, key=visits.__getitem__, default=None)
            most = self._most_named if record is None else visits[record]
            if plan is not None and most + ceil(of_every) > plan:
                raise ProtectionError(_beyond(plan, most + ceil(of_every), record))
            self._named.update(named)
            self._most_named = max(self._most_named, most)
            self._of_every = of_every

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # the records do not forget what a copy of the protection has released


def record_ids(records: Any, *, examples: int) -> tuple[RecordId, ...]:
    """The ids of a batch's rows as plain values, which compare by what they are.

    A text that writes a whole number names the same record as the number: an id may be read as
    7 in one epoch and as "7" in the next. "007" and "7.0" are other ids.

    Args:
        records: whole numbers or texts: a tensor, an array, or any sequence.
        examples: so many there must be.

    Raises:
        ValueError: another number of them, or an id that is neither.
    """
    values = records.tolist() if hasattr(records, "tolist") else list(records)
    if isinstance(records, str | bytes) or not isinstance(values, list) or len(values) != examples:
        raise ValueError(
            f"records must hold one id for each of the {examples} rows, got {records!r}."
        )
    for value in values:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral | str):
            raise ValueError(
                "records must hold whole numbers or texts, by which a record is known in every "
                f"epoch, got {value!r}."
            )
    return tuple(
        value if isinstance(value, str) and not _WHOLE_NUMBER.fullmatch(value) else int(value)
        for value in values
    )


def _beyond(plan: int, reached: int, record: RecordId | None) -> str:
    """The sentence for a call that passes the plan."""
    which = "every record" if record is None else f"record {record!r}"
    remedy = (
        "A call counts for every record unless it says which ones it has: where batches hold "
        "different records, pass their ids as records=, or batches_per_epoch=. Otherwise plan "
        if record is None
        else "Plan "
    )
    return (
        f"label party: the protection is planned for {plan} releases of each record, and this "
        f"would be release {reached} of {which}. Nothing was released. {remedy}for all of them "
        "(releases=) in a new protection, or pass beyond_plan='allow' and state the guarantee of "
        "as many releases as protection.visits.most."
    )
