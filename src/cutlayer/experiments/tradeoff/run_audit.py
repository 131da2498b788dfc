"""Attack what one run recorded, as cutlayer measures or as the paper's code does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from torch import nn

from cutlayer.audits import (
    HINTS,
    TRANSCRIPT,
    TRUTH,
    Hint,
    LeakAudit,
    audit_leak,
    read_ground_truth,
    read_hints,
)
from cutlayer.experiments.tradeoff.halves import first_layer_of
from cutlayer.experiments.tradeoff.result import AttackResult
from cutlayer.transcript import NonLabelHalf, Release, Transcript


@dataclass(frozen=True)
class Recording:
    """Where a run's messages are, and how to read them."""

    messages: Path
    """Transcript, truth and hints of the label party."""
    half: Path
    """What the non-label party handed over."""
    bottom: nn.Module
    """A bottom of the run's architecture; overwritten."""
    deep_width: int | None
    """Numbers of the cut to look at, where the last one was sent in clear; ``None`` for all."""
    keep_hint: bool
    """Whether the known positive counts in the AUC, as in the paper."""


def audit_recording(recording: Recording) -> LeakAudit:
    """Run every attack at the cut and at the first layer.

    Raises:
        DataError: a file is missing or damaged.
        ValueError: an attack refuses a release.
    """
    transcript = Transcript(recording.messages / TRANSCRIPT)
    records = len(transcript.ids)
    half = NonLabelHalf(recording.half)
    hints = {
        step: Hint(hint.record, hint.gradient[: recording.deep_width])
        for step, hint in read_hints(recording.messages / HINTS).items()
    }

    def deeper(release: Release, hint: Hint | None) -> tuple[Release, Hint | None]:
        half.load_bottom(release.step, recording.bottom)
        rows = half.features[release.records]
        carried = replace(
            release, gradient=first_layer_of(recording.bottom, rows, release.gradient)
        )
        if hint is None:
            return carried, None
        record = hints[release.step].record
        own = half.features[record : record + 1]
        gradient = first_layer_of(recording.bottom, own, hint.gradient[None])[0]
        return carried, Hint(hint.record, gradient)

    # A record number that no row has: the hint's own row is then not left out.
    given = (
        {s: Hint(records, h.gradient) for s, h in hints.items()} if recording.keep_hint else hints
    )
    return audit_leak(
        _looked_at(transcript, recording.deep_width),
        read_ground_truth(recording.messages / TRUTH),
        hints=given,
        first_layer=deeper,
    )


def attack_results(audit: LeakAudit) -> tuple[AttackResult, ...]:
    """One line for each attack and layer."""
    of = {(m.attack, m.layer, m.releases): m for m in audit.measurements}
    floors = {(c.attack, c.layer): c.null_floor for c in audit.curves}
    layers = dict.fromkeys(m.layer for m in audit.measurements)
    results = []
    for layer in layers:
        # An attack on activations alone is measured at the cut and nowhere else.
        for attack in dict.fromkeys(m.attack for m in audit.measurements if m.layer == layer):
            one, every = of[attack, layer, "one"], of[attack, layer, "all"]
            floor = floors[attack, layer]
            results.append(
                AttackResult(
                    attack=attack,
                    layer=layer,
                    median=one.leak_auc,
                    p95=one.leak_auc_p95,
                    all_releases=every.leak_auc,
                    median_floor=one.null_floor,
                    p95_floor=median(floor) if floor else None,
                    all_releases_floor=every.null_floor,
                )
            )
    return tuple(results)


def _looked_at(transcript: Transcript, deep_width: int | None) -> Iterator[Release]:
    """Releases without the part that was sent in clear."""
    for release in transcript:
        if deep_width is None:
            yield release
        else:
            yield replace(
                release,
                activation=release.activation[:, :deep_width],
                gradient=release.gradient[:, :deep_width],
            )
