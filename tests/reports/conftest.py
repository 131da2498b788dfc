"""A realistic findings document: five protections and two baselines on five splits."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from cutlayer.findings.document import (
    Applied,
    Bound,
    ClassHistogram,
    FindingRow,
    Findings,
    LeakCurve,
    Utility,
)
from cutlayer.reports import render_page

ATTACKS = ("norm", "cosine", "majority_count", "tail_energy", "first_component")
STEPS = 138

# Leak AUC in one release at the cut by attack (order of ATTACKS), then over all releases:
# what shared/MATH.md section 4 reports for Criteo and credit, rounded.
LEAKS = {
    ("no_noise", "-"): ((0.931, 0.997, 0.996, 0.742, 0.991), (0.952, 0.999, 0.999, 0.803, 0.998)),
    ("isotropic", "t=1"): ((0.553, 0.984, 0.979, 0.561, 0.902), (0.61, 0.999, 0.998, 0.64, 0.999)),
    ("max_norm", "-"): ((0.531, 0.762, 0.741, 0.544, 0.787), (0.56, 0.997, 0.995, 0.58, 0.999)),
    ("marvell", "s=4"): ((0.534, 0.641, 0.628, 0.992, 0.619), (0.57, 0.94, 0.93, 1.0, 0.89)),
    ("residual", "sigma=4.26"): ((0.533, 0.57, 0.55, 0.532, 0.561), (0.54, 0.69, 0.66, 0.55, 0.67)),
}
BOUNDS = {
    "no_noise": (Bound(kind="none", leak_auc=None, grounds="The gradient is sent unprotected."),)
    * 2,
    "isotropic": (
        Bound(
            kind="none",
            leak_auc=None,
            grounds="The noise scales with the batch's own largest gradient, which labels move.",
        ),
    )
    * 2,
    "max_norm": (
        Bound(
            kind="none",
            leak_auc=None,
            grounds="Every row keeps the line of its gradient, and the line's side is the label.",
        ),
    )
    * 2,
    "marvell": tuple(
        Bound(
            kind="model",
            leak_auc=value,
            grounds="Only if the gradients of each class were isotropic Gaussian.",
        )
        for value in (0.683, 0.971)
    ),
    "residual": tuple(
        Bound(
            kind="rigorous",
            leak_auc=value,
            grounds="Gaussian mechanism on the label, composed over all visits of the record.",
        )
        for value in (0.566, 0.7)
    ),
}
UTILITY = {
    ("label_party_alone", "-"): (0.648, 0.215),
    ("frozen", "-"): (0.726, 0.206),
    ("no_noise", "-"): (0.722, 0.207),
    ("isotropic", "t=1"): (0.719, 0.208),
    ("max_norm", "-"): (0.708, 0.211),
    ("marvell", "s=4"): (0.701, 0.212),
    ("residual", "sigma=4.26"): (0.688, 0.214),
}
STATEMENTS = {
    "no_noise": ("gradient", "Nothing: every row was sent as it was computed."),
    "isotropic": ("gradient", "Noise of power 1 x the batch's largest squared norm on every row."),
    "max_norm": ("gradient", "Every row was stretched along itself to the largest norm."),
    "marvell": ("gradient", "Noise by class on every row, power 4 x the squared gap of the means."),
    "residual": ("residual", "Noise of deviation 4.26 on every residual, before the message head."),
}


@pytest.fixture(scope="session")
def make_findings() -> Callable[..., Findings]:
    """Build the document; keyword arguments replace fields of it."""
    whole = _document()

    def make(**changes: object) -> Findings:
        return Findings.model_validate({**dict(whole), **changes})

    return make


@pytest.fixture(scope="session")
def findings(make_findings: Callable[..., Findings]) -> Findings:
    """The document as a demo run would write it."""
    return make_findings()


@pytest.fixture(scope="session")
def page_text(findings: Findings) -> str:
    """The page of that document; drawing its figures takes seconds, so it is drawn once."""
    return render_page(findings)


def _document() -> Findings:
    return Findings(
        created="2025-03-02T10:11:12+01:00",
        cutlayer_version="0.1.0",
        data="caravan",
        train_records=4657,
        test_records=1165,
        positive_share=0.0598,
        features_non_label_party=43,
        features_label_party=42,
        settings={"epochs": 10, "batch_size": 512, "learning_rate": 0.05, "resume": None},
        processes=2,
        noise="secret",
        hint="cosine: the gradient of one known positive of each batch, kept out of its AUC",
        first_layer="measured",
        complete=True,
        rows=_rows(),
        applied=_applied(),
        utility=[
            Utility(
                protection=protection,
                strength=strength,
                test_auc=[auc + shift for shift in (-0.02, -0.01, 0.0, 0.01, 0.02)],
                test_loss=[loss + shift / 5 for shift in (-0.02, -0.01, 0.0, 0.01, 0.02)],
            )
            for (protection, strength), (auc, loss) in UTILITY.items()
        ],
        curves=_curves(),
        histograms=_histograms(),
    )


def _row(protection: str, strength: str, **fields: object) -> FindingRow:
    auc, loss = UTILITY[protection, strength]
    # Five values -2, -1, 0, 1, 2 hundredths: deviation sqrt(2.5) hundredths, error that / sqrt 5.
    defaults: dict[str, object] = {
        "protection": protection,
        "strength": strength,
        "test_auc": auc,
        "test_auc_error": 0.01 * math.sqrt(2.5 / 5),
        "test_loss": loss,
        "test_loss_error": 0.002 * math.sqrt(2.5 / 5),
    }
    return FindingRow.model_validate(defaults | fields)


def _rows() -> list[FindingRow]:
    nothing = dict.fromkeys(
        ("layer", "leak_auc", "leak_auc_p95", "raw_auc", "pooled_auc", "null_floor"), None
    )
    rows = [
        _row(
            protection,
            "-",
            attack=None,
            releases="all",
            target="labels",
            null_deviation=None,
            batches=0,
            one_class_batches=0,
            guarantee=Bound(kind="rigorous", leak_auc=0.5, grounds="No message reads a label."),
            **nothing,
        )
        for protection in ("label_party_alone", "frozen")
    ]
    for (protection, strength), (one, whole) in LEAKS.items():
        for layer in ("cut", "first"):
            for releases, values in (("one", one), ("all", whole)):
                for attack, value in zip(ATTACKS, values, strict=True):
                    leak = value if layer == "cut" else 0.5 + 0.97 * (value - 0.5)
                    rows.append(_attacked(protection, strength, attack, layer, releases, leak))
        if protection in ("marvell", "residual"):
            for attack, shift in zip(ATTACKS, (0.003, 0.05, 0.04, 0.011, 0.047), strict=True):
                rows.append(_canary(protection, strength, attack, shift))
    return rows


def _attacked(
    protection: str, strength: str, attack: str, layer: str, releases: str, leak: float
) -> FindingRow:
    single = releases == "one"
    return _row(
        protection,
        strength,
        attack=attack,
        layer=layer,
        releases=releases,
        target="labels",
        leak_auc=leak,
        leak_auc_p95=min(1.0, leak + 0.04) if single else None,
        raw_auc=1 - leak if attack == "tail_energy" else leak,
        pooled_auc=min(1.0, leak + 0.005) if single else None,
        null_floor=0.6 if single else 0.534,
        null_deviation=0.054 if single else 0.0179,
        batches=STEPS if single else 1,
        one_class_batches=0,
        guarantee=BOUNDS[protection][0 if single else 1],
    )


def _canary(protection: str, strength: str, attack: str, shift: float) -> FindingRow:
    # 2,000 coins: deviation sqrt(2001 / (12 * 1000 * 1000)) = 0.0129
    return _row(
        protection,
        strength,
        attack=attack,
        layer="cut",
        releases="all",
        target="canaries",
        leak_auc=(0.93 if protection == "marvell" else 0.62) + shift,
        leak_auc_p95=None,
        raw_auc=(0.93 if protection == "marvell" else 0.62) + shift,
        pooled_auc=None,
        null_floor=0.525,
        null_deviation=0.0129,
        batches=1,
        one_class_batches=0,
        guarantee=BOUNDS[protection][1],
    )


def _applied() -> list[Applied]:
    return [
        Applied(
            protection=protection,
            strength=strength,
            stage=STATEMENTS[protection][0],
            releases=STEPS,
            rows=46570,
            statement=STATEMENTS[protection][1],
        )
        for protection, strength in LEAKS
    ]


def _curves() -> list[LeakCurve]:
    draws = np.random.default_rng(7)
    curves = []
    for (protection, strength), (one, _) in LEAKS.items():
        for layer in ("cut", "first"):
            for attack, value in zip(ATTACKS, one, strict=True):
                noise = draws.normal(0, 0.03, STEPS)
                warm = 0.15 * np.exp(-np.arange(STEPS) / 12) * (value - 0.5)
                leak = np.clip(value - warm + noise, 0, 1)
                curves.append(
                    LeakCurve(
                        protection=protection,
                        strength=strength,
                        attack=attack,
                        layer=layer,
                        target="labels",
                        step=list(range(STEPS)),
                        leak_auc=np.maximum(leak, 1 - leak).tolist(),
                        null_floor=(0.6 + draws.normal(0, 0.006, STEPS)).tolist(),
                    )
                )
    return curves


def _histograms() -> list[ClassHistogram]:
    draws = np.random.default_rng(8)
    spreads = {"no_noise": 0.05, "isotropic": 0.6, "max_norm": 0.35, "marvell": 0.9, "residual": 1}
    histograms = []
    for protection, strength in LEAKS:
        spread = spreads[protection]
        for layer in ("cut", "first"):
            samples = {
                "norm": (draws.beta(8, 2 + spread, 800), draws.beta(1 + 7 * spread, 12, 9000)),
                "cosine": (
                    np.tanh(draws.normal(2 * (1 - spread), 0.3 + spread, 800)),
                    np.tanh(draws.normal(-2 * (1 - spread), 0.3 + spread, 9000)),
                ),
            }
            for quantity, (positive, negative) in samples.items():
                edges = np.linspace(0 if quantity == "norm" else -1, 1, 41)
                histograms.append(
                    ClassHistogram(
                        protection=protection,
                        strength=strength,
                        layer=layer,
                        quantity=quantity,
                        edges=edges.tolist(),
                        positive=(np.histogram(positive, edges)[0] / 800).tolist(),
                        negative=(np.histogram(negative, edges)[0] / 9000).tolist(),
                    )
                )
    return histograms
