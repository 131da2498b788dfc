"""The first-layer carrier: turns what was received at the cut into what it is one half deeper."""

from dataclasses import replace

from torch import nn

from cutlayer.audits.hints import Hint
from cutlayer.transcript.first_layer import first_layer_gradient
from cutlayer.transcript.non_label_half import NonLabelHalf
from cutlayer.transcript.release import Release


class FirstLayerCarrier:
    """Carries releases and hints back through a handed-over half, with each step's own weights.

    Args:
        half: features and weights that the non-label party handed over.
        bottom: a bottom half of the recorded architecture; its weights are overwritten. Put it
            into evaluation mode if it has dropout or batch normalisation.
    """

    def __init__(self, half: NonLabelHalf, bottom: nn.Module) -> None:
        self._half = half
        self._bottom = bottom

    def __call__(self, release: Release, hint: Hint | None) -> tuple[Release, Hint | None]:
        """The same step at the output of the first trainable layer.

        The hint is carried by its own record's features, as the attacker, who holds them, would.

        Raises:
            DataError: the half has no usable weights of this step.
            ValueError: a record has no features, or the bottom refuses
                (:func:`~cutlayer.transcript.first_layer.first_layer_gradient`).
        """
        features = self._half.features
        if int(release.records.max()) >= len(features):
            raise ValueError(
                f"features must have a row for record {int(release.records.max())}, "
                f"got {len(features)} rows."
            )
        self._half.load_bottom(release.step, self._bottom)
        rows = features[release.records]
        deeper = first_layer_gradient(self._bottom, rows, release.gradient)
        carried = replace(release, gradient=deeper)
        if hint is None:
            return carried, None
        own = features[hint.record : hint.record + 1]
        gradient = first_layer_gradient(self._bottom, own, hint.gradient[None])[0]
        return carried, Hint(hint.record, gradient)
