"""Transcripts: what the non-label party saw during a training. The only input of an attack."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.transcript.first_layer import first_layer_gradient
    from cutlayer.transcript.folder import Transcript, TranscriptWriter
    from cutlayer.transcript.non_label_half import NonLabelHalf, NonLabelHalfWriter
    from cutlayer.transcript.release import Release

__all__ = [
    "NonLabelHalf",
    "NonLabelHalfWriter",
    "Release",
    "Transcript",
    "TranscriptWriter",
    "first_layer_gradient",
]

__getattr__ = lazily(
    __name__,
    {
        "first_layer": ("first_layer_gradient",),
        "folder": (
            "Transcript",
            "TranscriptWriter",
        ),
        "non_label_half": (
            "NonLabelHalf",
            "NonLabelHalfWriter",
        ),
        "release": ("Release",),
    },
)
