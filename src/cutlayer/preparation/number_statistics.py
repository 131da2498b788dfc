"""Running statistics of numeric columns, and the scaling that follows from them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cutlayer.errors import DataError
from cutlayer.preparation.options import Numbers

Floats = NDArray[np.float64]

_FIELDS: Final = ("low", "high", "mean", "squares")


@dataclass
class NumberStatistics:
    r"""Smallest, largest, mean and sum of squared deviations, block by block.

    With ``log`` they are those of :math:`\operatorname{sign}(v) \log(1 + |v|)`. Blocks are joined
    by

    .. math:: M = M_a + M_b + \delta^2 \frac{n_a n_b}{n_a + n_b}, \qquad
              \delta = \bar v_b - \bar v_a,

    which loses no digits where the mean is large.

    Source: Chan, Golub, LeVeque (1979), "Updating Formulae and a Pairwise Algorithm for Computing
    Sample Variances", equation 2.1.
    """

    kind: Numbers
    count: int
    low: Floats
    high: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def empty(cls, kind: Numbers, columns: int) -> "NumberStatistics":
        """Statistics of no rows."""
        return cls(
            kind,
            0,
            np.full(columns, np.inf),
            np.full(columns, -np.inf),
            np.zeros(columns),
            np.zeros(columns),
        )

    def add(self, values: Floats) -> None:
        """Take rows of shape ``(rows, columns)``, all finite."""
        if len(values) == 0 or values.shape[1] == 0:
            self.count += len(values)
            return
        values = self._curved(values)
        mean = values.mean(axis=0)
        squares = np.square(values - mean).sum(axis=0)
        total = self.count + len(values)
        shift = mean - self.mean
        self.squares += squares + np.square(shift) * (self.count * len(values) / total)
        self.mean += shift * (len(values) / total)
        self.low = np.minimum(self.low, values.min(axis=0))
        self.high = np.maximum(self.high, values.max(axis=0))
        self.count = total

    def scaled(self, values: Floats, names: tuple[str, ...]) -> NDArray[np.float32]:
        """Scale any rows; a column of one training value becomes 0.

        ``min-max`` is not cut off: a row that does not train may lie outside [0, 1].

        Raises:
            DataError: a value lies too far from the training values for a float32.
        """
        values = self._curved(values)
        if self.kind == "as-is":
            return values.astype(np.float32)
        if self.kind == "min-max":
            centre, width = self.low, self.high - self.low
        else:
            centre, width = self.mean, np.sqrt(self.squares / max(self.count, 1))
        flat = ~(width > 0)
        scaled = (values - centre) / np.where(flat, 1.0, width)
        scaled[:, flat] = 0.0
        beyond = (np.abs(scaled) > np.finfo(np.float32).max).any(axis=0)
        if beyond.any():
            raise DataError(
                f"Column {names[int(np.argmax(beyond))]!r} holds a number more than 1e38 times as "
                "far out as the training rows. Look for a placeholder such as 1e30 and leave it "
                "empty, or take the numbers as-is or log."
            )
        return scaled.astype(np.float32)

    def to_json(self) -> dict[str, object]:
        """All of it as a JSON object; floats come back bit for bit."""
        none = self.count == 0
        arrays = {name: [] if none else getattr(self, name).tolist() for name in _FIELDS}
        return {"kind": self.kind, "count": self.count, **arrays}

    @classmethod
    def from_json(cls, state: dict[str, object], columns: int) -> "NumberStatistics":
        """What :meth:`to_json` wrote."""
        made = cls.empty(state["kind"], columns)  # type: ignore[arg-type]
        if state["count"]:
            made.count = int(state["count"])  # type: ignore[call-overload]
            for name in _FIELDS:
                setattr(made, name, np.array(state[name], dtype=np.float64))
        return made

    def _curved(self, values: Floats) -> Floats:
        """The logarithm, where asked for."""
        return np.sign(values) * np.log1p(np.abs(values)) if self.kind == "log" else values
