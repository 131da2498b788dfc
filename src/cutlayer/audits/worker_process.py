"""Worker processes of this machine: how one begins, and how many are worth having."""

import os
import signal
import threading
from multiprocessing import parent_process

import torch


def available_cores() -> int:
    """How many processors this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def begin_worker() -> None:
    """One thread for computing; an end with the parent's; Ctrl-C is the parent's affair."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would go on, and write beside whoever follows."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
