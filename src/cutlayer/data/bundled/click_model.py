"""The click model: how a record of the synthetic data set becomes a chance of a click."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from cutlayer import check
from cutlayer.data.shared_draws import normals

ZIPF_EXPONENT: Final = 1.1
SMALLEST_VOCABULARY: Final = 10
VOCABULARY_GROWTH: Final = 4
VOCABULARY_STEPS: Final = 5

_RAREST = 1e-6
_LARGEST_SIGNAL = 10.0
_FARTHEST = 60.0  # with a signal of 10, an intercept of -60 makes one in 1e8 positive

_STEP = 0.05
_FREQUENCY = _STEP * (np.arange(300) + 0.5)

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]


def zipf_shares(vocabulary: int, exponent: float = ZIPF_EXPONENT) -> Floats:
    r"""How often each category occurs: :math:`P(r) \propto r^{-a}` for rank r = 1, 2, ...

    Args:
        vocabulary: number of categories, at least 1.
        exponent: a; 0 makes all categories equally frequent.

    Returns:
        Shares in (0, 1] that sum to 1, most frequent first, float64, shape ``(vocabulary,)``.

    Raises:
        ValueError: ``vocabulary`` is below 1, or ``exponent`` negative or not finite.

    >>> zipf_shares(2, exponent=1.0).round(4).tolist()
    [0.6667, 0.3333]
    """
    check.at_least("vocabulary", vocabulary, 1)
    check.not_negative("exponent", exponent)
    weight = np.arange(1, vocabulary + 1, dtype=np.float64) ** -exponent
    return weight / weight.sum()


def vocabulary_of(field: int) -> int:
    """Size of a categorical field's vocabulary: 10, 40, 160, 640, 2560, and round again."""
    return SMALLEST_VOCABULARY * VOCABULARY_GROWTH ** (field % VOCABULARY_STEPS)


@dataclass(frozen=True, eq=False)
class ClickModel:
    r"""A logistic model whose every number is known.

    .. math:: P(y = 1 \mid x, c) = \mathrm{sigmoid}\Bigl(b + \sum_i w_i x_i
              + \sum_j e_{j, c_j}\Bigr)

    with independent :math:`x_i \sim \mathcal N(0, 1)` and categories of rank :math:`c_j` that
    follow :func:`zipf_shares`. Build it with :meth:`drawn`, which scales the weights and solves
    for b.
    """

    intercept: float
    """b."""
    weight: Floats
    """w, one for each number, shape ``(numeric,)``."""
    effect: tuple[Floats, ...]
    """e, for each categorical field one array over its categories, ``(vocabulary,)``."""
    share: tuple[Floats, ...]
    """How frequent each category is, in the shapes of ``effect``."""

    @classmethod
    def drawn(
        cls, *, numeric: int, categorical: int, positive_share: float, signal: float, seed: int
    ) -> "ClickModel":
        r"""Draw weights and effects, then fix their size and the share of positives.

        The logit gets standard deviation ``signal`` over the records, and the intercept is the root
        of :math:`E\,P(y = 1) = ` ``positive_share``, both over the distribution of all records
        rather than over a sample.

        Args:
            numeric: how many numbers a record has.
            categorical: how many categories a record has; with ``numeric`` at least 1.
            positive_share: expected share of positives, between 1e-6 and 1 - 1e-6.
            signal: standard deviation of the logit, above 0 and at most 10.
            seed: fixes the weights; at least 0.

        Raises:
            ValueError: an argument is outside its range.
        """
        check.at_least("numeric", numeric, 0)
        check.at_least("categorical", categorical, 0)
        check.at_least("numeric + categorical", numeric + categorical, 1)
        check.between("positive_share", positive_share, _RAREST, 1 - _RAREST)
        check.positive("signal", signal)
        if signal > _LARGEST_SIGNAL:
            raise ValueError(f"signal must be at most {_LARGEST_SIGNAL}, got {signal}.")
        check.at_least("seed", seed, 0)
        weight = normals(numeric, seed, 0)
        share = tuple(zipf_shares(vocabulary_of(field)) for field in range(categorical))
        drawn = [normals(len(s), seed, 1, field) for field, s in enumerate(share)]
        effect = tuple(e - s @ e for e, s in zip(drawn, share, strict=True))
        variance = weight @ weight + sum(s @ e**2 for e, s in zip(effect, share, strict=True))
        scale = signal / math.sqrt(float(variance))
        model = cls(0.0, weight * scale, tuple(e * scale for e in effect), share)
        return replace(model, intercept=model.intercept_for(positive_share))

    def probability(self, numbers: Sequence[Floats], ranks: Sequence[Ranks]) -> Floats:
        """Chance of a click.

        Args:
            numbers: values of each number, in the order of ``weight``, shape ``(records,)`` each.
            ranks: each field's category as its rank from 0, in the order of ``effect``, int64,
                shape ``(records,)`` each.

        Returns:
            Probabilities in [0, 1], float64, shape ``(records,)``.
        """
        parts = [w * values for w, values in zip(self.weight, numbers, strict=True)]
        parts += [e[rank] for e, rank in zip(self.effect, ranks, strict=True)]
        return expit(self.intercept + np.sum(parts, axis=0))

    def expected_share(self, intercept: float) -> float:
        r"""Expected share of positives over all records, if the intercept were this one.

        sigmoid is the distribution function of a logistic variable :math:`\Lambda`, so the share is
        :math:`P(\Lambda - L \le b)` with L the logit without intercept. The parts of L are
        independent, which makes the characteristic function of :math:`\Lambda - L` a product:

        .. math:: \varphi(t) = \frac{\pi t}{\sinh \pi t}\; e^{-t^2 \lVert w \rVert^2 / 2}
                  \prod_j \sum_r P_j(r)\, e^{-i t e_{j,r}}

        and :math:`P = \tfrac12 - \tfrac1\pi \int_0^\infty \mathrm{Im}(e^{-itb} \varphi(t))\,
        dt / t`. The integrand falls like :math:`e^{-\pi t}`, so the midpoint rule up to t = 15 with
        steps of 0.05 is exact to about 1e-14.

        Args:
            intercept: b, between -60 and 60.

        Raises:
            ValueError: ``intercept`` is outside its range.

        Source: Gil-Pelaez (1951), "Note on the inversion theorem", Biometrika 38, 481-482.
        """
        check.between("intercept", intercept, -_FARTHEST - 1, _FARTHEST + 1)
        turned = (np.exp(-1j * _FREQUENCY * intercept) * self._characteristic).imag
        return 0.5 - float((turned / _FREQUENCY).sum()) * _STEP / math.pi

    def intercept_for(self, positive_share: float) -> float:
        """The intercept with which this share of all records is positive in expectation."""
        root: float = brentq(
            lambda b: self.expected_share(b) - positive_share, -_FARTHEST, _FARTHEST, xtol=1e-12
        )
        return root

    @cached_property
    def _characteristic(self) -> NDArray[np.complex128]:
        r"""The function :math:`\varphi` at all frequencies: see :meth:`expected_share`."""
        t = _FREQUENCY
        phi = np.pi * t / np.sinh(np.pi * t) * np.exp(-(t**2) * (self.weight @ self.weight) / 2)
        for effect, share in zip(self.effect, self.share, strict=True):
            phi = phi * (np.exp(-1j * np.outer(t, effect)) @ share)
        return phi
