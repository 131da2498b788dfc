"""The live alarm: warns, and ends a training only where its operator has asked for that."""

from collections.abc import Callable

from cutlayer import check
from cutlayer.audits.live.live_leak import LiveReading
from cutlayer.errors import LeakStopError

SETTLED = 4
"""Readings before the median is believed: a single batch may read high by chance."""


class LiveAlarm:
    """Listens to a :class:`~cutlayer.audits.live.live_leak.LiveLeak`, and is asked by it to stop.

    Args:
        warn: told a sentence when the median rises above ``warn_above``; told again only after it
            has fallen below in between.
        warn_above: a leak AUC in (0.5, 1); ``None`` never warns.
        stop_above: a leak AUC in (0.5, 1); ``None`` never stops. A training that *may* stop tells
            about its labels by going on as well as by stopping, so it has no guarantee at all.

    Raises:
        ValueError: a threshold is out of range.
    """

    def __init__(
        self,
        warn: Callable[[str], None],
        *,
        warn_above: float | None = None,
        stop_above: float | None = None,
    ) -> None:
        for name, value in (("warn_above", warn_above), ("stop_above", stop_above)):
            if value is not None:
                check.between(name, value, 0.5, 1.0)
        self._warn, self._warn_above, self._stop_above = warn, warn_above, stop_above
        self._warned = False

    def stop(self, reading: LiveReading) -> None:
        """End the training at this reading, where that was asked for.

        Raises:
            LeakStopError: the median lies above ``stop_above``.
        """
        if self._stops_at(reading):
            raise LeakStopError(
                f"label party: stopped at step {reading.step}: the live leak AUC is "
                f"{reading.median:.3f}, above stop_above = {self._stop_above}. Since the moment of "
                "stopping depends on labels, this run has no guarantee. Choose a stronger "
                "protection, or raise stop_above."
            )

    def __call__(self, reading: LiveReading) -> None:
        """Take note of one reading; one that stops the training is not warned of as well."""
        if reading.batches < SETTLED or self._stops_at(reading):
            return
        above = self._warn_above is not None and reading.median > self._warn_above
        if above and not self._warned:
            self._warn(
                f"Leak: at step {reading.step} the median over {reading.batches} batches is "
                f"{reading.median:.3f}, above warn_above = {self._warn_above}; the worst attack on "
                f"this batch is {reading.attack}. Training goes on."
            )
        self._warned = above

    def _stops_at(self, reading: LiveReading) -> bool:
        """Whether a reading is believed, and above ``stop_above``."""
        settled = reading.batches >= SETTLED
        return settled and self._stop_above is not None and reading.median > self._stop_above
