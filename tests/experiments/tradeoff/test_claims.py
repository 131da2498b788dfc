"""The verdict on each claim of the paper, at both sides of its limits."""

import numpy as np
import pytest
from PIL import Image

from cutlayer.experiments.tradeoff.claims import claims_of
from cutlayer.experiments.tradeoff.configuration import checked
from cutlayer.experiments.tradeoff.result import AttackResult, RunResult
from cutlayer.experiments.tradeoff.summary import Point, Summary
from cutlayer.preparation import ImageOptions, prepare_images, raw_images

SETTINGS = {"data": "breast-cancer", "protections": ["no_noise"]}


def point(spec, *, auc=0.75, cut=0.9, first=0.9, norm=0.95):
    """One seed; ``cut`` and ``first`` are the cosine attack's median, ``norm`` that at both."""
    measured = [("cosine", "cut", cut), ("cosine", "first", first)]
    measured += [("norm", "cut", norm), ("norm", "first", norm)]
    attacks = tuple(
        AttackResult(
            attack=attack, layer=layer, median=leak, p95=0.99, all_releases=None,
            median_floor=None, p95_floor=None, all_releases_floor=None,
        )
        for attack, layer, leak in measured
    )  # fmt: skip
    name, _, strength = spec.partition(":")
    result = RunResult(
        spec=spec, protection=name, strength=strength or "-", seed=0, test_auc=auc, test_loss=0.4,
        train_auc=0.8, train_loss=0.4, attacks=attacks, steps=9, audited_batches=9,
        one_class_batches=0, train_records=90, test_records=10, positive_share=0.3,
        training_seconds=1.0, audit_seconds=1.0,
    )  # fmt: skip
    return Point(spec, name, strength or "-", (result,))


def claim(begin, *points, **settings):
    """The one claim that begins so."""
    summary = Summary(checked({**SETTINGS, **settings}), points, (), len(points))
    [found] = [one for one in claims_of(summary) if one.claim.startswith(begin)]
    return found


@pytest.mark.parametrize(
    ("leaks", "verdict"),
    [
        ({"norm": 0.91, "cut": 0.995, "first": 1.0}, "reproduced"),
        ({"norm": 0.9, "cut": 0.995, "first": 1.0}, "not reproduced"),
        ({"norm": 0.91, "cut": 0.995, "first": 0.994}, "not reproduced"),
        ({"norm": 0.91, "cut": 0.995, "first": None}, "not measured"),
        ({"norm": None, "cut": 0.5, "first": 0.5}, "not measured"),
    ],
)
def test_without_noise_norm_and_direction_leak(leaks, verdict):
    assert claim("no_noise", point("no_noise", **leaks)).verdict == verdict


def test_the_papers_protocol_judges_its_95th_percentile():
    bare = point("no_noise", norm=0.6, cut=0.6, first=0.6)  # medians; each 95th percentile is .99
    assert claim("no_noise", bare).measured.startswith("norm 0.600 (cut)")
    found = claim("no_noise", bare, paper_protocol=True)
    assert found.measured.startswith("norm 0.990 (cut)")


@pytest.mark.parametrize(
    ("weak", "strong", "verdict"),
    [
        (0.95, 0.64, "reproduced"),
        (0.95, 0.56, "reproduced"),
        (0.94, 0.6, "not reproduced"),
        (0.99, 0.66, "not reproduced"),
        (0.99, 0.54, "not reproduced"),
        (0.99, None, "not measured"),
    ],
)
def test_marvells_strength_moves_the_cosine(weak, strong, verdict):
    points = point("marvell:s=0.1", cut=weak), point("marvell:s=4", cut=strong)
    assert claim("marvell: s from", *points).verdict == verdict


@pytest.mark.parametrize(
    ("auc", "cut", "verdict"),
    [
        (0.746, 0.79, "reproduced"),  # .004 worse counts as equal
        (0.744, 0.79, "not reproduced"),
        (0.8, 0.8, "not reproduced"),  # no less leak
        (0.8, None, "not measured"),
    ],
)
def test_marvell_leaks_less_than_isotropic_at_equal_quality(auc, cut, verdict):
    points = point("isotropic:t=4", auc=0.75, cut=0.8), point("marvell:s=1", auc=auc, cut=cut)
    assert claim("marvell: less", *points).verdict == verdict


def test_a_point_that_beats_needs_no_help_of_one_that_was_not_measured():
    rival, better = point("isotropic:t=4", cut=0.8), point("marvell:s=1", cut=0.7)
    unknown = point("marvell:s=4", cut=None)
    assert claim("marvell: less", rival, better, unknown).verdict == "reproduced"
    assert claim("marvell: less", point("isotropic:t=4", cut=None), better).verdict == (
        "not measured"
    )


@pytest.mark.parametrize(
    ("auc", "cut", "verdict"),
    [
        # Between (.6, .70) and (.8, .80) marvell's curve passes (.7, .75).
        (0.769, 0.7, "reproduced"),
        (0.731, 0.7, "reproduced"),
        (0.771, 0.7, "not reproduced"),
        (0.729, 0.7, "not reproduced"),
        (0.8, 0.81, "not measured"),  # beyond the end of the curve
        (0.8, None, "not measured"),
    ],
)
def test_max_norm_lies_near_marvells_curve(auc, cut, verdict):
    curve = point("marvell:s=1", auc=0.8, cut=0.8), point("marvell:s=4", auc=0.7, cut=0.6)
    assert claim("max_norm", *curve, point("max_norm", auc=auc, cut=cut)).verdict == verdict


@pytest.fixture
def images(tmp_path):
    """Images of two classes, raw and prepared."""
    for name in ("benign", "malignant"):
        (tmp_path / "raw" / name).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (32, 32), (number, 0, 0)).save(
                tmp_path / "raw" / name / f"{name}{number}.png"
            )
    prepare_images(raw_images(tmp_path / "raw"), tmp_path / "prepared", ImageOptions(size=32))
    np.savez(
        tmp_path / "raw.npz", x=np.zeros((4, 32, 32, 3), dtype=np.uint8), y=np.array([0, 1, 0, 1])
    )
    return {"prepared": tmp_path / "prepared", "images": tmp_path / "raw.npz"}


@pytest.mark.parametrize("kind", ["prepared", "images"])
def test_isotropic_is_judged_on_images_wherever_they_come_from(images, kind):
    settings = {"data": None, kind: str(images[kind]), "model": "paper"}
    strongest = point("isotropic:t=25", cut=0.91)
    points = point("isotropic:t=1", cut=0.5), strongest
    assert claim("isotropic", *points, **settings).verdict == "reproduced"
    worse = point("isotropic:t=25", cut=0.9)
    assert claim("isotropic", worse, **settings).verdict == "not reproduced"
    assert claim("isotropic", strongest).measured.endswith("(no images)")
