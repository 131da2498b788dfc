"""The grid of a sweep: protections with lists of strengths, times seeds."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cutlayer.errors import ConfigurationError
from cutlayer.experiments.plan import FROZEN
from cutlayer.protections import PROTECTIONS, Protection, parse_protection
from cutlayer.protections.marvell import Marvell

_LIST = re.compile(r"=\s*\[([^\[\]]*)\]")


@dataclass(frozen=True)
class Run:
    """One training of a sweep."""

    spec: str
    """The protection as text, with one value for each setting."""
    seed: int
    """Of split, batch order, initial weights and noise."""

    @property
    def name(self) -> str:
        """Name of its folder; stays the same when the grid grows."""
        spec = re.sub(r"[^\w.+]+", "-", self.spec)  # 1e+3 and 1e-3 are two strengths
        return f"{spec}-seed-{self.seed}"


def expanded(text: str) -> list[str]:
    """A protection with lists of values as one text for each combination.

    Raises:
        ConfigurationError: a list is empty.

    >>> expanded("isotropic:t=[0.25, 1]")
    ['isotropic:t=0.25', 'isotropic:t=1']
    """
    lists = [
        [value.strip() for value in match.split(",") if value.strip()]
        for match in _LIST.findall(text)
    ]
    if any(not values for values in lists):
        raise ConfigurationError(f"protection {text!r}: a list of values is empty. Fill it.")
    begin, *rest = _LIST.split(text)[::2]
    return [
        begin + "".join(f"={value}{piece}" for value, piece in zip(values, rest, strict=True))
        for values in itertools.product(*lists)
    ]


def specs_of(protections: Sequence[str]) -> list[str]:
    """Every protection of the grid, in the order of the configuration.

    Raises:
        ConfigurationError: a protection is named twice.
    """
    specs = [spec for text in protections for spec in expanded(text)]
    twice = {spec for spec in specs if specs.count(spec) > 1}
    if twice:
        raise ConfigurationError(f"protections: {', '.join(sorted(twice))} is named twice.")
    return specs


def protection_of(spec: str, *, epochs: int, paper_protocol: bool) -> Protection:
    """A protection, made anew for one training.

    Args:
        spec: its text.
        epochs: planned releases of each record.
        paper_protocol: take Marvell's statistics from each batch alone, unless the text says
            otherwise.

    Raises:
        ConfigurationError: the text is wrong, or names the baseline ``frozen``.
    """
    if spec.partition(":")[0].strip() == FROZEN:
        raise ConfigurationError(
            f"protections: {FROZEN} sends no gradient, so a sweep has nothing to attack. Leave it "
            f'out, and compare with a training of both parties under protection = "{FROZEN}".'
        )
    verbatim = paper_protocol and spec.partition(":")[0].strip() == Marvell.name
    if verbatim and "statistics" not in spec:
        spec += ("," if ":" in spec else ":") + "statistics=batch"
    return parse_protection(spec, PROTECTIONS, planned_releases=epochs)
