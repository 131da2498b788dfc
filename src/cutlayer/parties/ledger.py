"""The ledger: how many releases each record has been charged with, over all starts of a run."""

import json
import os
from pathlib import Path

from cutlayer.errors import DataError


class Ledger:
    """How often the training records have been sent, on disk before the next epoch is sent.

    An epoch counts once it has begun: after a crash nobody knows how much of it had left.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def epochs_begun(self) -> int:
        """Epochs of gradients whose sending has begun, over all starts of this run.

        Raises:
            DataError: the file is damaged; then nobody knows what was sent.
        """
        try:
            return int(json.loads(self._path.read_text())["epochs_begun"])
        except FileNotFoundError:
            return 0
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"label party: {self._path} is damaged, so the number of releases is unknown. "
                "Begin a new run; count what this one has sent."
            ) from error

    def begin_epoch(self) -> None:
        """Charge one more epoch, durably, before its first gradient leaves."""
        count = self.epochs_begun + 1
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_name(self._path.name + ".partial")
        with partial.open("w") as file:
            json.dump({"epochs_begun": count}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
