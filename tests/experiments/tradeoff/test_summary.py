import csv
import json
import math
import shutil
from dataclasses import replace
from statistics import NormalDist

import pytest
from PIL import Image
from scipy.stats import t as student

from cutlayer.errors import DataError
from cutlayer.experiments.tradeoff.choices import choices_of, cost_in_test_auc
from cutlayer.experiments.tradeoff.claims import claims_of
from cutlayer.experiments.tradeoff.page import render_page, warnings_of
from cutlayer.experiments.tradeoff.published import published_points
from cutlayer.experiments.tradeoff.result import FAILURE_FILE, Failure, write_record
from cutlayer.experiments.tradeoff.summary import WORST, Summary, estimate, summarise
from cutlayer.experiments.tradeoff.tables import write_tables
from cutlayer.experiments.tradeoff.utility_curves import series_of
from cutlayer.preparation import ImageOptions, prepare_images, raw_images


def results(folder, spec):
    """What is on disk, by another route than the summary's."""
    files = sorted((folder / "runs").glob("*/result.json"))
    found = [json.loads(file.read_text()) for file in files]
    return [result for result in found if result["spec"] == spec]


def mean_by_hand(values):
    return math.fsum(values) / len(values)


@pytest.mark.parametrize("spec", ["no_noise", "isotropic:t=25", "marvell:s=0.1"])
@pytest.mark.parametrize("layer", ["cut", "first"])
@pytest.mark.parametrize("statistic", ["median", "p95", "all_releases"])
def test_numbers_are_those_of_the_results(done_sweep, spec, layer, statistic):
    configuration, folder = done_sweep
    point = next(p for p in summarise(configuration, folder).points if p.spec == spec)
    found = results(folder, spec)
    assert len(found) == 2
    by_seed = [
        {a["attack"]: a[statistic] for a in result["attacks"] if a["layer"] == layer}
        for result in found
    ]
    for attack in ("norm", "cosine", "tail_energy"):
        expected = mean_by_hand([leaks[attack] for leaks in by_seed])
        assert point.leak(attack, layer, statistic).mean == pytest.approx(expected)
    worst = mean_by_hand([max(leaks.values()) for leaks in by_seed])
    assert point.leak(WORST, layer, statistic).mean == pytest.approx(worst)
    aucs = [result["test_auc"] for result in found]
    assert point.quality("test_auc").mean == pytest.approx(mean_by_hand(aucs))


def test_the_interval_of_three_values():
    # .6, .65, .7 have the deviation .05; t(.975) at two degrees is 4.3027.
    found = estimate([0.6, 0.65, 0.7])
    assert found.high - found.mean == pytest.approx(0.05 / 3**0.5 * student.ppf(0.975, 2))
    assert found.mean - found.low == pytest.approx(0.1242, abs=1e-4)
    assert found.is_interval


def test_two_values_have_a_range_and_one_has_nothing():
    found = estimate([0.7, 0.6])
    assert (found.low, found.high) == (0.6, 0.7)
    assert not found.is_interval
    assert estimate([0.6]).low is None


def test_the_tables_hold_the_same_numbers(done_sweep, tmp_path):
    configuration, folder = done_sweep
    write_tables(summarise(configuration, folder), tmp_path)
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(configuration.runs)
    for row in rows:
        spec = row["protection"] + ("" if row["strength"] == "-" else ":" + row["strength"])
        result = next(r for r in results(folder, spec) if r["seed"] == int(row["seed"]))
        assert float(row["test_loss"]) == result["test_loss"]
        cosine = next(
            a for a in result["attacks"] if a["attack"] == "cosine" and a["layer"] == "first"
        )
        assert float(row["cosine_first_p95"]) == cosine["p95"]
    with (tmp_path / "summary.csv").open() as file:
        summary = list(csv.DictReader(file))
    line = next(
        r
        for r in summary
        if (r["strength"], r["attack"], r["layer"], r["statistic"]) == ("s=4", "norm", "cut", "p95")
    )
    expected = [
        next(a["p95"] for a in r["attacks"] if a["attack"] == "norm" and a["layer"] == "cut")
        for r in results(folder, "marvell:s=4")
    ]
    assert float(line["mean"]) == pytest.approx(mean_by_hand(expected))
    assert line["seeds"] == "2"


def test_what_a_protection_costs_is_counted_seed_by_seed(done_sweep, tmp_path):
    configuration, folder = done_sweep
    bare = {r["seed"]: r["test_auc"] for r in results(folder, "no_noise")}
    found = {c.point.spec: c for c in choices_of(summarise(configuration, folder))}
    assert found["no_noise"].cost is None
    costs = [bare[r["seed"]] - r["test_auc"] for r in results(folder, "marvell:s=4")]
    assert costs[0] != costs[1]
    cost = found["marvell:s=4"].cost
    assert (cost.low, cost.high) == (min(costs), max(costs))
    assert cost.mean == pytest.approx(mean_by_hand(costs))
    write_tables(summarise(configuration, folder), tmp_path)
    with (tmp_path / "summary.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["quantity"] == "test_auc_cost"]
    assert len(rows) == 5
    assert float(rows[-1]["mean"]) == cost.mean


def test_a_cost_is_of_the_seeds_that_both_have(done_sweep):
    configuration, folder = done_sweep
    summary = summarise(configuration, folder)
    bare, noisy = (summary.points[0], next(p for p in summary.points if p.spec == "max_norm"))
    first, second = (replace(bare, results=(result,)) for result in bare.results)
    assert cost_in_test_auc(replace(summary, points=(first, noisy)), noisy).seeds == 1
    apart = replace(noisy, results=noisy.results[:1])
    assert cost_in_test_auc(replace(summary, points=(second, apart)), apart) is None


def test_the_worst_attack_is_named_and_a_bound_only_where_it_is_proven(done_sweep):
    configuration, folder = done_sweep
    summary = summarise(configuration, folder)
    for choice in choices_of(summary):
        found = results(folder, choice.point.spec)
        by_attack = {
            a["attack"]: mean_by_hand(
                [
                    one["all_releases"]
                    for r in found
                    for one in r["attacks"]
                    if (one["attack"], one["layer"]) == (a["attack"], "cut")
                ]
            )
            for a in found[0]["attacks"]
            if a["layer"] == "cut"
        }
        assert by_attack[choice.whole_training.attack] == max(by_attack.values())
        assert choice.bound is None
    point = replace(summary.points[0], spec="residual:sigma=2", protection="residual")
    [choice] = choices_of(replace(summary, points=(point,)))
    # Two epochs at sigma = 2: Phi(sqrt(2 / 2) / 2).
    assert choice.bound == pytest.approx(NormalDist().cdf(0.5))


def test_strengths_stand_in_the_order_of_their_noise(done_sweep):
    configuration, folder = done_sweep
    summary = summarise(configuration, folder)
    found = {s.protection: s for s in series_of(summary, "cosine", "cut", "median", "test_auc")}
    assert list(found) == ["no_noise", "isotropic", "max_norm", "marvell"]
    assert found["isotropic"].labels == ("t=0.25", "t=25")
    assert found["marvell"].labels == ("s=0.1", "s=4")
    expected = mean_by_hand([r["test_auc"] for r in results(folder, "marvell:s=4")])
    assert found["marvell"].quality[1].mean == pytest.approx(expected)


def test_claims_say_what_was_measured_and_what_not(done_sweep):
    configuration, folder = done_sweep
    summary = summarise(configuration, folder)
    by_claim = {claim.claim.partition(":")[0]: claim for claim in claims_of(summary)}
    assert len(claims_of(summary)) == 5
    cosine = [
        mean_by_hand(
            [
                next(
                    a["median"]
                    for a in r["attacks"]
                    if a["attack"] == "cosine" and a["layer"] == "cut"
                )
                for r in results(folder, f"marvell:s={s}")
            ]
        )
        for s in ("0.1", "4")
    ]
    text = next(c.measured for c in claims_of(summary) if "from .1 to 4" in c.claim)
    assert text == f"s = .1: {cosine[0]:.3f}; s = 4: {cosine[1]:.3f}"
    assert by_claim["isotropic with large noise"].verdict == "not measured"  # no images
    nothing = Summary(configuration, (), (), 0)
    assert {claim.verdict for claim in claims_of(nothing)} == {"not measured"}


def test_isotropic_is_judged_on_images_however_they_are_given(done_sweep, tmp_path):
    """Images that were prepared are images: their claim used to count as not measured."""
    configuration, folder = done_sweep
    for name in ("a", "b"):
        for kind in ("benign", "malignant"):
            own = tmp_path / "raw" / "train" / kind
            own.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), "red").save(own / f"{kind}{name}.jpg")
    raw = raw_images(tmp_path / "raw")
    prepare_images(raw, tmp_path / "isic", ImageOptions(size=8), lambda *_, **__: None)
    prepared = configuration.model_copy(update={"data": None, "prepared": tmp_path / "isic"})
    summary = replace(summarise(configuration, folder), configuration=prepared)
    claim = next(c for c in claims_of(summary) if c.claim.startswith("isotropic"))
    assert claim.verdict != "not measured"
    assert "no images" not in claim.measured


def claim_on(summary, words):
    """The claim that holds these words."""
    return next(claim for claim in claims_of(summary) if words in claim.claim)


def test_a_target_is_not_taken_for_a_strength_s(done_sweep):
    summary = summarise(*done_sweep)
    points = [
        replace(point, strength=point.strength.replace("s=", "max_sum_kl="))
        for point in summary.points
    ]
    claim = claim_on(replace(summary, points=tuple(points)), "from .1 to 4")
    assert claim.verdict == "not measured"


def test_the_strengths_of_one_claim_have_the_same_statistics(done_sweep):
    summary = summarise(*done_sweep)
    weak, strong = (p for p in summary.points if p.protection == "marvell")
    as_paper = [
        replace(point, strength=f"{strength}, batch statistics")
        for point, strength in ((strong, "s=0.1"), (weak, "s=4"))
    ]
    both = claim_on(replace(summary, points=(weak, strong, *as_paper)), "from .1 to 4")
    leaks = [point.leak("cosine", "cut", "median").mean for point in (strong, weak)]
    expected = f"s = .1: {leaks[0]:.3f}; s = 4: {leaks[1]:.3f} (batch statistics)"
    assert both.measured == expected
    mixed = claim_on(replace(summary, points=(weak, as_paper[1])), "from .1 to 4")
    assert mixed.verdict == "not measured"


def test_a_leak_that_was_not_measured_refutes_no_claim(done_sweep):
    summary = summarise(*done_sweep)
    points = []
    for point in summary.points:  # no batch held a known positive
        results = [
            r.model_copy(update={"attacks": tuple(a for a in r.attacks if a.attack != "cosine")})
            for r in point.results
        ]
        points.append(replace(point, results=tuple(results)))
    verdicts = {claim.verdict for claim in claims_of(replace(summary, points=tuple(points)))}
    assert verdicts == {"not measured"}


def test_the_floor_of_one_attack_is_not_stated_for_the_worst_of_all(done_sweep, tmp_path):
    write_tables(summarise(*done_sweep), tmp_path)
    with (tmp_path / "summary.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["quantity"] == "leak_auc"]
    assert {r["null_floor"] for r in rows if r["attack"] == WORST} == {""}
    assert all(float(r["null_floor"]) > 0.5 for r in rows if r["attack"] == "norm")


def test_a_failure_is_part_of_the_summary(done_sweep, tmp_path):
    configuration, _ = done_sweep
    run = configuration.runs[3]
    own = tmp_path / "runs" / run.name
    own.mkdir(parents=True)
    write_record(Failure(spec=run.spec, seed=0, error="ValueError: no"), own / FAILURE_FILE)
    summary = summarise(configuration, tmp_path)
    assert [failure.error for failure in summary.failures] == ["ValueError: no"]
    write_tables(summary, tmp_path)
    assert "ValueError: no" in (tmp_path / "runs.csv").read_text()


def test_a_result_of_another_run_is_refused(done_sweep, tmp_path):
    configuration, folder = done_sweep
    here, there = configuration.runs[0], configuration.runs[1]
    own = tmp_path / "runs" / here.name
    shutil.copytree(folder / "runs" / there.name, own)
    with pytest.raises(DataError, match="must hold no_noise with seed 0, but holds isotropic"):
        summarise(configuration, tmp_path)


def test_the_published_points_are_the_papers():
    # Read off shared/facts by eye: Criteo's no_noise, and isotropic ratio r as t = r * r.
    points = published_points("criteo")
    assert len(points) == 40
    bare = next(point for point in points if point.protection == "no_noise")
    assert (bare.test_auc, bare.norm_p95, bare.cosine_p95) == (0.78095, 0.951, 1.0)
    largest = max(p.strength for p in points if p.protection == "isotropic")
    assert largest == 25.0**2


def test_test_auc_and_loss_stand_beside_their_interval_and_the_share_of_positives(
    done_sweep, tmp_path
):
    configuration, folder = done_sweep
    summary = summarise(configuration, folder)
    write_tables(summary, tmp_path)
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert 0 < float(row["test_auc_low"]) < float(row["test_auc"]) < float(row["test_auc_high"])
        # A tenth more or less of positives than 37 % moves an entropy of .66 by less than .04.
        assert float(row["base_loss"]) == pytest.approx(0.66, abs=0.04)
    (bare,) = (point for point in summary.points if point.spec == "no_noise")
    lows = [r["test_auc_low"] for r in results(folder, "no_noise")]
    assert bare.test_interval[0] == pytest.approx(mean_by_hand(lows))
    page = render_page(summary, [])
    assert f"{bare.test_interval[0]:.3f} to {bare.test_interval[1]:.3f}" in page
    assert f"{bare.base_loss:.3f}</span>" in page


@pytest.mark.parametrize(("base", "warned"), [(0.01, True), (9.0, False), (None, False)])
def test_a_loss_above_that_of_the_share_of_positives_is_a_warning(done_sweep, base, warned):
    summary = summarise(*done_sweep)
    points = tuple(
        replace(p, results=tuple(r.model_copy(update={"base_loss": base}) for r in p.results))
        for p in summary.points
    )
    said = " ".join(warnings_of(replace(summary, points=points)))
    assert ("no_noise has test loss" in said) == warned
    assert ("above the 0.010 of the share of positives alone" in said) == warned
