"""Audits: the attacks on what was sent, against the labels. Runs at the label party only."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.audits.attack_tally import Measurement, StepCurve
    from cutlayer.audits.class_histograms import GradientHistogram
    from cutlayer.audits.first_layer_carrier import FirstLayerCarrier
    from cutlayer.audits.ground_truth import GroundTruth, read_ground_truth, write_ground_truth
    from cutlayer.audits.hints import Hint, Hints, pick_hint, read_hints, write_hints
    from cutlayer.audits.leak_audit import FirstLayer, LeakAudit, LeakAuditor, audit_leak
    from cutlayer.audits.live.live_leak import LiveLeak
    from cutlayer.audits.live.release_audit import ReleaseAudit
    from cutlayer.audits.recording.ground_truth_files import HINTS, TRUTH
    from cutlayer.audits.recording.recorder import TRANSCRIPT, ReleaseRecorder
    from cutlayer.audits.scope import FULL_SCOPE, AuditScope

__all__ = [
    "FULL_SCOPE",
    "HINTS",
    "TRANSCRIPT",
    "TRUTH",
    "AuditScope",
    "FirstLayer",
    "FirstLayerCarrier",
    "GradientHistogram",
    "GroundTruth",
    "Hint",
    "Hints",
    "LeakAudit",
    "LeakAuditor",
    "LiveLeak",
    "Measurement",
    "ReleaseAudit",
    "ReleaseRecorder",
    "StepCurve",
    "audit_leak",
    "pick_hint",
    "read_ground_truth",
    "read_hints",
    "write_ground_truth",
    "write_hints",
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
        "recording.ground_truth_files": (
            "HINTS",
            "TRUTH",
        ),
        "leak_audit": (
            "FirstLayer",
            "LeakAudit",
            "LeakAuditor",
            "audit_leak",
        ),
        "live.live_leak": ("LiveLeak",),
        "recording.recorder": (
            "TRANSCRIPT",
            "ReleaseRecorder",
        ),
        "live.release_audit": ("ReleaseAudit",),
        "scope": (
            "FULL_SCOPE",
            "AuditScope",
        ),
        "ground_truth": (
            "GroundTruth",
            "read_ground_truth",
            "write_ground_truth",
        ),
    },
)
