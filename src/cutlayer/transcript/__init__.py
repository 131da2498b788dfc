"""Transcripts: what the non-label party saw during a training. The only input of an attack."""

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
