"""Draw the figures of ``theory.md`` from simulations with cutlayer's own code.

    python docs/make_theory_figures.py

Gradients are simulated as real ones are: nearly of rank 1, row i a residual (p_i - y_i) times a
Jacobian that varies by 5 % from row to row. Everything is seeded, so the files change only when the
code does.
"""

import argparse
import math
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtr
from torch import Tensor

from cutlayer.attacks.cosine_attack import cosine_attack
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.tail_energy import tail_energy
from cutlayer.leakage.gaussian_mechanism import gaussian_leak_auc, gaussian_mu
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from cutlayer.leakage.null_floor import null_floor
from cutlayer.leakage.sum_kl_bounds import leak_auc_bound, paper_leak_auc_bound
from cutlayer.protections import Marvell, MaxNorm, Residual
from cutlayer.protections.base import GradientProtection
from cutlayer.reports.svg import MARKS
from cutlayer.rng import SeededNoise

ROWS, WIDTH, SHARE = 1024, 128, 0.25
VISITS = 20
GREY = "#777777"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cutlayer",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
}


def batch(seed: int) -> tuple[Tensor, Tensor]:
    """Cut gradients of one batch, float32 ``(ROWS, WIDTH)``, and labels."""
    source = torch.Generator().manual_seed(seed)
    logit = math.log(SHARE / (1 - SHARE)) + 0.7 * torch.randn(ROWS, generator=source)
    chance = torch.sigmoid(logit)
    labels = (torch.rand(ROWS, generator=source) < chance).long()
    common = torch.randn(WIDTH, generator=source)
    jacobian = common + 0.05 * torch.randn(ROWS, WIDTH, generator=source)
    return (chance - labels)[:, None] * jacobian / ROWS, labels


def draw_bounds(path: Path) -> None:
    """What a sumKL allows: the paper's bound, the sharper one, the exact AUC at equal spread."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        divergences = [0.02 * i for i in range(301)]
        lines = (
            ("paper's bound", [paper_leak_auc_bound(d) for d in divergences]),
            ("sharper bound", [leak_auc_bound(d) for d in divergences]),
            ("exact for equal variances", [float(ndtr(math.sqrt(d / 2))) for d in divergences]),
        )
        for (name, values), mark in zip(lines, MARKS, strict=False):
            axes.plot(divergences, values, color=mark.colour, linestyle=mark.dash, label=name)
        axes.set(xlabel="sumKL in nats", ylabel="leak AUC", xlim=(0, 6), ylim=(0.5, 1.01))
        axes.legend(frameon=False, loc="lower right")
        save(figure, path)


def draw_tail_energy(path: Path) -> None:
    """Marvell against the tail-energy attack: one batch by class, and AUC over the strengths."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        one_batch, strengths = figure.subplots(1, 2)
        clean, labels = batch(0)
        sent = Marvell(s=4.0).perturb(clean, labels, noise=SeededNoise(0))
        energy = -tail_energy(sent)
        for label, name in ((0, "negatives"), (1, "positives")):
            mark = MARKS[label]
            values = energy[labels == label].clamp(min=1e-12).log10()
            one_batch.hist(
                values.tolist(), bins=40, color=mark.colour, alpha=0.75, label=name, density=True
            )
        one_batch.set(
            xlabel="log10 of a row's energy in the weakest 64 of 128 directions",
            ylabel="density",
            title="one release under Marvell, s = 4",
        )
        one_batch.legend(frameon=False)
        draw_strengths(strengths)
        save(figure, path)


def draw_strengths(axes: Axes) -> None:
    """Median leak AUC of three attacks over 15 batches, for each strength."""
    powers = [0.25, 1.0, 4.0, 16.0, 64.0]
    attacks = ("norm", "cosine", "tail energy")
    leaks: dict[str, list[float]] = {name: [] for name in attacks}
    for s in powers:
        found: dict[str, list[float]] = {name: [] for name in attacks}
        for seed in range(15):
            clean, labels = batch(seed)
            sent = Marvell(s=s).perturb(clean, labels, noise=SeededNoise(seed))
            known = int(torch.nonzero(labels == 1)[0])
            rest = torch.arange(ROWS) != known
            scores = (
                norm_attack(sent)[rest],
                cosine_attack(sent[rest], clean[known]),
                tail_energy(sent)[rest],
            )
            for name, score in zip(attacks, scores, strict=True):
                found[name].append(symmetrised(leak_auc(score, labels[rest])))
        for name in attacks:
            leaks[name].append(float(torch.tensor(found[name]).median()))
    for name, mark in zip(attacks, MARKS, strict=False):
        axes.plot(
            powers,
            leaks[name],
            color=mark.colour,
            linestyle=mark.dash,
            marker=mark.marker,
            label=name,
        )
    axes.plot(
        powers,
        [leak_auc_bound(1 / s) for s in powers],
        color=GREY,
        label="model's bound, sumKL = 1/s",
    )
    floor = null_floor(int(SHARE * ROWS), ROWS - int(SHARE * ROWS))
    axes.axhspan(0.5, floor, color="#eeeeee")
    axes.set(xscale="log", xlabel="strength s", ylabel="leak AUC in one release", ylim=(0.5, 1.02))
    axes.set_title("more power does not help")
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.94))


def averaged_leak(protection: GradientProtection) -> list[float]:
    """Leak AUC of the mean first-component score after 1, 2 ... VISITS releases of one batch."""
    clean, labels = batch(0)
    noise = SeededNoise(1)
    total = torch.zeros(ROWS, dtype=torch.float64)
    leaks = []
    for _ in range(VISITS):
        score = first_component(protection.perturb(clean, labels, noise=noise))
        side = -1.0 if float(score @ total) < 0 else 1.0  # batches are aligned with each other
        total += side * score
        leaks.append(symmetrised(leak_auc(total, labels)))
    return leaks


def draw_first_component(path: Path) -> None:
    """max_norm against the first component, and what averaging over visits does to all."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        one_batch, visits = figure.subplots(1, 2)
        clean, labels = batch(0)
        sent = MaxNorm().perturb(clean, labels, noise=SeededNoise(0))
        score = first_component(sent)
        score = score / score.abs().max()
        for label, name in ((0, "negatives"), (1, "positives")):
            values = score[labels == label].tolist()
            colour = MARKS[label].colour
            one_batch.hist(values, bins=40, color=colour, alpha=0.75, label=name, density=True)
        one_batch.set(
            xlabel="coordinate along the batch's strongest direction",
            ylabel="density",
            title="one release under max_norm",
        )
        one_batch.legend(frameon=False)
        draw_visits(visits)
        save(figure, path)


def draw_visits(axes: Axes) -> None:
    """Leak AUC over the visits: measured for max_norm and Marvell, proven for the residual."""
    number = list(range(1, VISITS + 1))
    planned = Residual(max_leak_auc=0.6, releases=VISITS)
    lines = (
        ("max_norm, measured", averaged_leak(MaxNorm())),
        ("Marvell s=4, measured", averaged_leak(Marvell(s=4.0))),
        (
            "residual planned for 0.6, bound",
            [gaussian_leak_auc(gaussian_mu(planned.noise_deviation, releases=n)) for n in number],
        ),
    )
    for (name, values), mark in zip(lines, MARKS, strict=False):
        axes.plot(number, values, color=mark.colour, linestyle=mark.dash, label=name)
    theory = [float(ndtr(math.sqrt(n / 8))) for n in number]
    axes.plot(number, theory, color=GREY, label="Phi(sqrt(n / (2 s))), s = 4")
    axes.set(xlabel="visits of each record", ylabel="leak AUC, no hint", ylim=(0.5, 1.02))
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_title("fresh noise averages out")
    axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.42))


def save(figure: Figure, path: Path) -> None:
    """Write an SVG without a date in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Draw all figures into a folder."""
    parser = argparse.ArgumentParser(description="Draw the figures of docs/theory.md.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    folder = parser.parse_args().out
    torch.set_num_threads(1)
    draw_bounds(folder / "bounds.svg")
    draw_tail_energy(folder / "tail_energy.svg")
    draw_first_component(folder / "first_component.svg")


if __name__ == "__main__":
    main()
