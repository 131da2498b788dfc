"""The ledger: how many releases each record has been charged with, over all starts of a run."""

import json
import os
from pathlib import Path

from cutlayer.errors import ConfigurationError, DataError


class Ledger:
    """How often the training records have been sent, on disk before the next epoch is sent.

    An epoch counts once it has begun: after a crash nobody knows how much of it had left. All
    epochs of a ledger are sent under one protection, since a bound computed from another one
    would not cover what has left already.

    Args:
        path: the file.
        protection: exact settings of the protection that the run is about to use, as text.
    """

    def __init__(self, path: Path, protection: str) -> None:
        self._path, self._protection = path, protection

    @property
    def epochs_begun(self) -> int:
        """Epochs of gradients whose sending has begun, over all starts of this run.

        Raises:
            DataError: the file is damaged; then nobody knows what was sent.
            ConfigurationError: they were sent under another protection.
        """
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            begun, protection = int(kept["epochs_begun"]), str(kept["protection"])
        except FileNotFoundError:
            return 0
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"label party: {self._path} is damaged, so the number of releases is unknown. "
                "Begin a new run; count what this one has sent."
            ) from error
        if begun and protection != self._protection:
            raise ConfigurationError(
                f"label party: this run has begun {begun} releases of each record under "
                f"{protection}, and was now started with {self._protection}. One bound cannot "
                "cover both: go on with the first, or begin a run of another name. (A goal for the "
                "whole training is planned for `epochs`; to keep room for more, state `releases`, "
                "as in residual:max_leak_auc=0.7,releases=30.)"
            )
        return begun

    def begin_epoch(self) -> None:
        """Charge one more epoch, durably, before its first gradient leaves."""
        kept = {"epochs_begun": self.epochs_begun + 1, "protection": self._protection}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_name(self._path.name + ".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
