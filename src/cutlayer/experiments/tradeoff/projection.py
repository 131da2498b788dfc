"""The projection: about how many core-hours a sweep will take, from a few timed steps."""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cutlayer.experiments.tradeoff.configuration import TradeoffConfiguration
from cutlayer.experiments.tradeoff.grid import Run
from cutlayer.experiments.tradeoff.records import records_of
from cutlayer.experiments.tradeoff.training import do_run

_PILOT_STEPS = 4
_PILOT_AUDITS = 2


@dataclass(frozen=True)
class Projection:
    """What a sweep will take."""

    runs: int
    steps: int
    """Of one run."""
    core_hours: float
    step_seconds: float
    """Of one step of the pilot."""
    audit_seconds: float
    """Of one audited batch of the pilot."""

    def sentence(self, workers: int) -> str:
        """For the terminal."""
        wall = self.core_hours / min(workers, max(1, self.runs))
        return (
            f"{self.runs} runs of {self.steps:,} steps: about {self.core_hours:.2f} core-hours, "
            f"{wall:.2f} hours on {workers} processes (a step {1000 * self.step_seconds:.0f} ms, "
            f"an audited batch {1000 * self.audit_seconds:.0f} ms)."
        )


def projected(configuration: TradeoffConfiguration, runs: list[Run]) -> Projection | None:
    """Time a few steps of the first run, with what an audit of them takes, and multiply.

    Args:
        configuration: of the sweep.
        runs: that are left.

    Returns:
        The projection; ``None`` where so few steps cannot be run, as when they hold one class, or
        memory does not suffice for the network.

    Raises:
        DataError: a file cannot be read.
        ConfigurationError: the records are fewer than ``rows`` asks for.
    """
    total = len(records_of(configuration)[0])
    training = math.floor(total * (1 - configuration.test_share))
    steps = configuration.epochs * max(1, training // configuration.batch_size)
    needed = math.ceil(_PILOT_STEPS * configuration.batch_size / (1 - configuration.test_share))
    small = configuration.model_copy(
        update={
            "rows": None if needed >= total else needed,
            "epochs": 1,
            "audit_every": _PILOT_STEPS // _PILOT_AUDITS,
        }
    )
    with tempfile.TemporaryDirectory(prefix="cutlayer-pilot-") as folder:
        try:
            for attempt in ("warm-up", "timed"):  # the first steps of a process are slower
                pilot = do_run(small, runs[0], Path(folder) / attempt)
        except Exception:  # noqa: BLE001  (whatever it is, the runs meet it too, and keep it)
            return None
    step = pilot.training_seconds / max(1, pilot.steps)
    audit = pilot.audit_seconds / max(1, pilot.audited_batches)
    audited = math.ceil(steps / configuration.audit_every)
    seconds = len(runs) * (steps * step + audited * audit)
    return Projection(len(runs), steps, seconds / 3600, step, audit)
