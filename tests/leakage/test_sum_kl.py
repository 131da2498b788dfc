"""sumKL against the textbook formula in 60 digits."""

from types import SimpleNamespace

import mpmath
import pytest

from cutlayer.leakage.sum_kl import sum_kl


def textbook(noise, *, variance_pos, variance_neg, gap_squared, width) -> mpmath.mpf:
    """KL between two Gaussians with diagonal covariances, both ways, term by term."""
    with mpmath.workdps(60):
        x1, y1 = (mpmath.mpf(t) + variance_pos for t in (noise.along_pos, noise.across_pos))
        x0, y0 = (mpmath.mpf(t) + variance_neg for t in (noise.along_neg, noise.across_neg))
        k = width - 1
        one = (x1 + gap_squared) / x0 + k * y1 / y0 - width + mpmath.log(x0 / x1)
        one += k * mpmath.log(y0 / y1)
        two = (x0 + gap_squared) / x1 + k * y0 / y1 - width + mpmath.log(x1 / x0)
        two += k * mpmath.log(y1 / y0)
        return (one + two) / 2


@pytest.mark.parametrize(
    ("noise", "v", "u", "g", "d"),
    [
        ((1.0, 0.5, 2.0, 0.0), 0.25, 0.75, 3.0, 5),
        ((1e-9, 0.0, 1e-9, 0.0), 1.0, 1.0 + 1e-6, 1e-12, 1000),
        ((4.0, 0.0, 3.0, 0.0), 1e-18, 1e-12, 1.0, 128),
        ((1e-30, 1e-31, 2e-30, 0.0), 3e-31, 1e-30, 1e-30, 64),
        ((0.0, 0.0, 0.0, 0.0), 1.0, 2.0, 0.0, 1),
    ],
)
def test_equals_the_textbook_formula(noise, v, u, g, d):
    names = ("along_pos", "across_pos", "along_neg", "across_neg")
    four = SimpleNamespace(**dict(zip(names, noise, strict=True)))
    known = {"variance_pos": v, "variance_neg": u, "gap_squared": g, "width": d}
    assert sum_kl(four, **known) == pytest.approx(float(textbook(four, **known)), rel=1e-12)
