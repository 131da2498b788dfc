"""Trackers: log the live leak AUC where experiments are followed, at the label party only."""

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from cutlayer.audits.live.live_leak import LiveReading
from cutlayer.errors import ConfigurationError

BATCH, MEDIAN = "cutlayer/leak_auc", "cutlayer/leak_auc_median"
"""Names of the two series: the worst attack on one batch, and its median over the last ones."""


class Tracker(Protocol):
    """Takes numbers by name and step."""

    def log(self, name: str, value: float, step: int) -> None:
        """Keep one number."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoardTracker:
    """Writes event files that ``tensorboard --logdir`` shows.

    Args:
        folder: where they go.

    Raises:
        ConfigurationError: TensorBoard is not installed.
    """

    def __init__(self, folder: str) -> None:
        # torch has the writer, which needs the package tensorboard.
        module = _imported("torch.utils.tensorboard", "tensorboard")
        self._writer = module.SummaryWriter(folder)

    def log(self, name: str, value: float, step: int) -> None:
        """Keep one number."""
        self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class MlflowTracker:
    """Logs metrics to a run of its own on an MLflow server, or into a folder.

    Args:
        address: of the tracking server, or ``file:FOLDER``.

    Raises:
        ConfigurationError: MLflow is not installed, or begins no run there.
    """

    def __init__(self, address: str) -> None:
        self._mlflow = _imported("mlflow", "mlflow")
        try:
            self._mlflow.set_tracking_uri(address)
            self._mlflow.start_run(run_name="cutlayer live audit")
        except Exception as error:  # whatever a foreign package raises
            raise ConfigurationError(
                f"track: MLflow begins no run at {address} ({type(error).__name__}: {error}). "
                "Start the server, mend the address, or leave track out."
            ) from error

    def log(self, name: str, value: float, step: int) -> None:
        """Keep one number."""
        self._mlflow.log_metric(name, value, step=step)

    def close(self) -> None:
        """Write what is left."""
        self._mlflow.end_run()


TRACKERS: dict[str, Callable[[str], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "mlflow": MlflowTracker,
}
"""Kinds of trackers, as the configuration names them."""


def open_tracker(text: str) -> Tracker:
    """Open the tracker that a configuration names.

    Args:
        text: ``tensorboard:FOLDER`` or ``mlflow:ADDRESS``.

    Raises:
        ConfigurationError: the text is neither, or the package is not installed.
    """
    kind, colon, where = text.partition(":")
    if kind not in TRACKERS or not colon or not where:
        raise ConfigurationError(
            f"track must be one of {', '.join(f'{known}:WHERE' for known in TRACKERS)}, "
            f"got {text!r}."
        )
    return TRACKERS[kind](where)


class Tracking:
    """A listener that logs each reading.

    A tracker that fails, as a server that is gone, is told of once; the training goes on without.

    Args:
        tracker: where the readings go.
        tell: what to do with a sentence for the user.
    """

    def __init__(self, tracker: Tracker, tell: Callable[[str], None]) -> None:
        self._tracker: Tracker | None = tracker
        self._tell = tell

    def __call__(self, reading: LiveReading) -> None:
        """Log one reading."""
        self._attempt(lambda tracker: tracker.log(BATCH, reading.leak_auc, reading.step))
        self._attempt(lambda tracker: tracker.log(MEDIAN, reading.median, reading.step))

    def close(self) -> None:
        """Write what is left."""
        self._attempt(lambda tracker: tracker.close())

    def _attempt(self, act: Callable[[Tracker], None]) -> None:
        """Do something with the tracker, unless it has failed before."""
        if self._tracker is None:
            return
        try:
            act(self._tracker)
        except Exception as error:  # noqa: BLE001  whatever a foreign package raises
            self._tracker = None
            self._tell(
                f"label party: track: the tracker has failed and gets no more numbers; the "
                f"training goes on ({type(error).__name__}: {error})."
            )


def _imported(module: str, package: str) -> Any:
    """Import an optional package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"track: {package} is not installed. Install cutlayer[tracking]."
        ) from error
