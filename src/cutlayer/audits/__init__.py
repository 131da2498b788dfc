"""Audits: the attacks on what was sent, against the labels. Runs at the label party only."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.audits.attack_tally import Measurement, StepCurve
    from cutlayer.audits.class_histograms import GradientHistogram
    from cutlayer.audits.first_layer_carrier import FirstLayerCarrier
    from cutlayer.audits.hints import Hint, Hints, pick_hint, read_hints, write_hints
    from cutlayer.audits.label_side import HINTS, TRUTH
    from cutlayer.audits.leak_audit import FirstLayer, LeakAudit, LeakAuditor, audit_leak
    from cutlayer.audits.live_leak import LiveLeak
    from cutlayer.audits.recorder import TRANSCRIPT, ReleaseRecorder
    from cutlayer.audits.release_audit import ReleaseAudit
    from cutlayer.audits.scope import FULL_SCOPE, AuditScope
    from cutlayer.audits.truth import Truth, read_truth, write_truth

__all__ = [
    "FULL_SCOPE",
    "HINTS",
    "TRANSCRIPT",
    "TRUTH",
    "AuditScope",
    "FirstLayer",
    "FirstLayerCarrier",
    "GradientHistogram",
    "Hint",
    "Hints",
    "LeakAudit",
    "LeakAuditor",
    "LiveLeak",
    "Measurement",
    "ReleaseAudit",
    "ReleaseRecorder",
    "StepCurve",
    "Truth",
    "audit_leak",
    "pick_hint",
    "read_hints",
    "read_truth",
    "write_hints",
    "write_truth",
]

__getattr__ = lazily(
    __name__,
    {
        "attack_tally": (
            "Measurement",
            "StepCurve",
        ),
        "class_histograms": ("GradientHistogram",),
        "first_layer_carrier": ("FirstLayerCarrier",),
        "hints": (
            "Hint",
            "Hints",
            "pick_hint",
            "read_hints",
            "write_hints",
        ),
        "label_side": (
            "HINTS",
            "TRUTH",
        ),
        "leak_audit": (
            "FirstLayer",
            "LeakAudit",
            "LeakAuditor",
            "audit_leak",
        ),
        "live_leak": ("LiveLeak",),
        "recorder": (
            "TRANSCRIPT",
            "ReleaseRecorder",
        ),
        "release_audit": ("ReleaseAudit",),
        "scope": (
            "FULL_SCOPE",
            "AuditScope",
        ),
        "truth": (
            "Truth",
            "read_truth",
            "write_truth",
        ),
    },
)
