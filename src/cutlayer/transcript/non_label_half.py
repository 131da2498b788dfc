"""What the non-label party may hand over for an audit: its features and its half of the model.

With them the audit can carry received gradients back to the first layer of that half. A label
party cannot demand this; where it is not given, only the cut layer is measured.

::

    non_label_half/
    ├── features.safetensors             one row a record, in the order of the run's ids
    └── bottom-0000000010.safetensors    the weights with which step 10 was computed
"""

from pathlib import Path

from torch import Tensor, nn

from cutlayer import check
from cutlayer.errors import DataError
from cutlayer.transcript.tensor_file import read_tensor_file, write_tensor_file

_FEATURES = "features.safetensors"
_FEATURES_KIND = "non_label_half.features/1"
_BOTTOM_KIND = "non_label_half.bottom/1"
_FIX = "Ask the non-label party to hand its half over again, or audit the cut layer alone."


class NonLabelHalfWriter:
    """Keeps the features once and the bottom half at each step that is audited.

    Args:
        folder: made if it does not exist.
        features: model inputs of every record, in the order of the run's ids, any dtype, shape
            ``(records, columns)`` or ``(records, ...)``.
        every: keep the steps that this number divides; the same as for the transcript.

    Raises:
        ValueError: ``features`` is empty or not finite, or ``every`` is below 1.
    """

    def __init__(self, folder: Path, features: Tensor, every: int = 1) -> None:
        _check_features(features)
        check.at_least("every", every, 1)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.every = every
        write_tensor_file(folder / _FEATURES, _FEATURES_KIND, {"features": features})

    def write(self, step: int, bottom: nn.Module) -> None:
        """Keep parameters and buffers as they are now, if the step belongs to the sample.

        Call it before the step's update: the gradient of a step belongs to the weights that made
        its activation.

        Raises:
            ValueError: ``step`` is negative.
        """
        check.at_least("step", step, 0)
        if step % self.every:
            return
        path = _bottom_path(self.folder, step)
        write_tensor_file(path, _BOTTOM_KIND, bottom.state_dict(), {"step": str(step)})


class NonLabelHalf:
    """A handed-over half; weights are read step by step, when they are asked for.

    Args:
        folder: what a :class:`NonLabelHalfWriter` wrote.

    Raises:
        DataError: the features are missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tensors, _ = read_tensor_file(folder / _FEATURES, _FEATURES_KIND, ("features",), fix=_FIX)
        self.features = tensors["features"]
        try:
            _check_features(self.features)
        except ValueError as error:
            raise DataError(f"{folder / _FEATURES}: {error} {_FIX}") from error
        names = (path.stem.removeprefix("bottom-") for path in folder.glob("bottom-*.safetensors"))
        self.steps = tuple(sorted(int(name) for name in names if name.isdecimal()))

    def load_bottom(self, step: int, bottom: nn.Module) -> None:
        """Put the weights of one step into a bottom half of the same architecture.

        Args:
            step: one of :attr:`steps`.
            bottom: overwritten in place.

        Raises:
            DataError: the step was not kept, its file is damaged, or it belongs to another
                architecture.
        """
        path = _bottom_path(self.folder, step)
        tensors, metadata = read_tensor_file(path, _BOTTOM_KIND, None, fix=_FIX)
        if metadata.get("step") != str(step):
            raise DataError(f"{path} holds step {metadata.get('step')}, not {step}. {_FIX}")
        try:
            bottom.load_state_dict(tensors)
        except RuntimeError as error:
            mismatch = str(error).splitlines()[-1].strip().rstrip(".")
            raise DataError(
                f"{path} does not fit the bottom half that it was to be loaded into "
                f"({mismatch}). Build the bottom with the settings of the recorded run."
            ) from error


def _bottom_path(folder: Path, step: int) -> Path:
    """Where the weights of a step are kept."""
    return folder / f"bottom-{step:010d}.safetensors"


def _check_features(features: Tensor) -> None:
    """Require at least one row and one column, and no NaN."""
    if features.ndim < 2 or features.numel() == 0:
        raise ValueError(
            f"features must have shape (records, columns), both at least 1, "
            f"got {tuple(features.shape)}."
        )
    check.finite("features", features)
