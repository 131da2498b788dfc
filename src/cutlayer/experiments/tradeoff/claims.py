"""The paper's claims, held against a sweep: reproduced, not reproduced, or not measured."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cutlayer.audits.scope import Layer
from cutlayer.experiments.tradeoff.records import on_images
from cutlayer.experiments.tradeoff.summary import LAYERS, Point, Summary

Verdict = Literal["reproduced", "not reproduced", "not measured"]

_SAME_AUC = 0.005
"""Test AUCs that differ by less are taken for equal, as seeds differ by about that much."""
_NEAR_CURVE = 0.02
_ENDS = (0.1, 4.0)
"""Strengths between which the paper moves Marvell's direction leak."""
_AS_PAPER = "batch statistics"
_S = re.compile(r"s=([^,]+)(?:, (.*))?")


@dataclass(frozen=True)
class Claim:
    """One claim and what became of it here."""

    claim: str
    measured: str
    verdict: Verdict


def claims_of(summary: Summary) -> list[Claim]:
    """Every claim of the paper that a sweep can bear on, with the headline statistic."""
    checks: tuple[Callable[[Summary], Claim], ...] = (
        _no_noise_leaks,
        _isotropic_keeps_direction,
        _marvell_moves_cosine,
        _marvell_beats_isotropic,
        _max_norm_near_marvell,
    )
    return [check(summary) for check in checks]


def _no_noise_leaks(summary: Summary) -> Claim:
    """Norm and direction without protection."""
    claim = "no_noise: norm above .9 and cosine 1.0 (.995 and more), at cut and first layer"
    points = summary.of("no_noise")
    if not points:
        return Claim(claim, "", "not measured")
    norms = [_leak(points[0], "norm", layer, summary) for layer in LAYERS]
    cosines = [_leak(points[0], "cosine", layer, summary) for layer in LAYERS]
    holds = all(n > 0.9 for n in norms) and all(c >= 0.995 for c in cosines)
    verdict = _verdict(holds, *norms, *cosines)
    shown = (
        f"norm {norms[0]:.3f} (cut), {norms[1]:.3f} (first); "
        f"cosine {cosines[0]:.3f} (cut), {cosines[1]:.3f} (first)"
    )
    return Claim(claim, shown, verdict)


def _isotropic_keeps_direction(summary: Summary) -> Claim:
    """Direction under the strongest isotropic noise."""
    claim = "isotropic with large noise: cosine at the cut still above .9, on images"
    points = summary.of("isotropic")
    if not points:
        return Claim(claim, "", "not measured")
    cosine = _leak(points[-1], "cosine", "cut", summary)
    shown = f"{points[-1].label}: cosine {cosine:.3f}"
    if not on_images(summary.configuration):
        return Claim(claim, f"{shown} (no images)", "not measured")
    return Claim(claim, shown, _verdict(cosine > 0.9, cosine))


def _marvell_moves_cosine(summary: Summary) -> Claim:
    """Direction over Marvell's strengths."""
    claim = "marvell: s from .1 to 4 moves cosine at the cut from about 1.0 to about .6 (± .05)"
    variants: dict[str, dict[float, Point]] = {}
    for point in summary.of("marvell"):
        # A target such as max_sum_kl=4 is another strength than s=4.
        if found := _S.fullmatch(point.strength):
            variants.setdefault(found[2] or "", {})[float(found[1])] = point
    whole = [name for name, points in variants.items() if all(s in points for s in _ENDS)]
    if not whole:
        return Claim(claim, "", "not measured")
    variant = _AS_PAPER if _AS_PAPER in whole else whole[0]
    weak, strong = (_leak(variants[variant][s], "cosine", "cut", summary) for s in _ENDS)
    holds = weak >= 0.95 and abs(strong - 0.6) <= 0.05
    shown = f"s = .1: {weak:.3f}; s = 4: {strong:.3f}" + (f" ({variant})" if variant else "")
    return Claim(claim, shown, _verdict(holds, weak, strong))


def _marvell_beats_isotropic(summary: Summary) -> Claim:
    """Who hides the direction better at the price of the other."""
    claim = "marvell: less cosine leak than isotropic at equal test AUC"
    rivals, points = _measured("isotropic", summary), _measured("marvell", summary)
    if not rivals or not points:
        return Claim(claim, "", "not measured")
    beaten = [rival for rival in rivals if any(_beats(p, rival, summary) for p in points)]
    shown = (
        f"at {len(beaten)} of {len(rivals)} isotropic points some marvell point has a test AUC at "
        f"most {_SAME_AUC} lower, and less cosine leak"
    )
    return Claim(claim, shown, _verdict(len(beaten) == len(rivals)))


def _max_norm_near_marvell(summary: Summary) -> Claim:
    """The point of max_norm against Marvell's curve."""
    claim = f"max_norm: one point near marvell's curve (test AUC within {_NEAR_CURVE})"
    points, curve = _measured("max_norm", summary), _measured("marvell", summary)
    if not points or len(curve) < 2:
        return Claim(claim, "", "not measured")
    leaks, aucs = zip(
        *sorted((_leak(p, "cosine", "cut", summary), p.quality("test_auc").mean) for p in curve),
        strict=True,
    )
    cosine, auc = _leak(points[0], "cosine", "cut", summary), points[0].quality("test_auc").mean
    expected = float(np.interp(cosine, leaks, aucs))
    shown = f"cosine {cosine:.3f}, test AUC {auc:.3f}; marvell's curve there {expected:.3f}"
    if not leaks[0] <= cosine <= leaks[-1]:
        return Claim(claim, f"{shown} (beyond its end)", "not measured")
    return Claim(claim, shown, _verdict(abs(auc - expected) <= _NEAR_CURVE))


def _beats(point: Point, rival: Point, summary: Summary) -> bool:
    """Whether a point leaks less direction without predicting worse."""
    auc, other = point.quality("test_auc").mean, rival.quality("test_auc").mean
    less = _leak(point, "cosine", "cut", summary) < _leak(rival, "cosine", "cut", summary)
    return auc >= other - _SAME_AUC and less


def _measured(protection: str, summary: Summary) -> list[Point]:
    """The points of a protection whose direction leak was measured, weakest first."""
    points = summary.of(protection)
    return [p for p in points if not math.isnan(_leak(p, "cosine", "cut", summary))]


def _leak(point: Point, attack: str, layer: Layer, summary: Summary) -> float:
    """The headline leak; NaN where it was not measured."""
    found = point.leak(attack, layer, summary.headline)
    return math.nan if found is None else found.mean


def _verdict(holds: bool, *leaks: float) -> Verdict:
    """In words; a leak among them that was not measured decides nothing."""
    if any(map(math.isnan, leaks)):
        return "not measured"
    return "reproduced" if holds else "not reproduced"
