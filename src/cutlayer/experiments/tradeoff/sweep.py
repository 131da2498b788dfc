"""The sweep: every run of the grid that has no result yet, on a pool of processes."""

import multiprocessing
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from cutlayer.audits.worker_process import begin_worker
from cutlayer.durable import only_process
from cutlayer.errors import CutlayerError
from cutlayer.experiments.tradeoff.configuration import (
    TradeoffConfiguration,
    keep_configuration,
    require_same_sweep,
)
from cutlayer.experiments.tradeoff.grid import Run
from cutlayer.experiments.tradeoff.result import (
    FAILURE_FILE,
    Failure,
    run_folder,
    state_of,
    write_record,
)
from cutlayer.experiments.tradeoff.training import run_and_keep

LOOK_SECONDS = 1.0

OnLook = Callable[[], None]
"""Called every second or so, and after each run: for a display."""
Pool = Callable[[TradeoffConfiguration, Sequence[Run], Path, OnLook], None]
"""Does some runs elsewhere than on this machine's processes, as on Ray."""


def runs_left(
    configuration: TradeoffConfiguration, folder: Path, *, retry_failed: bool = False
) -> list[Run]:
    """The runs that have no result. A failed run stays failed, unless it is to be tried again."""
    ended = {"done"} if retry_failed else {"done", "failed"}
    return [run for run in configuration.runs if state_of(folder, run) not in ended]


def run_sweep(
    configuration: TradeoffConfiguration,
    folder: Path,
    on_look: OnLook,
    *,
    retry_failed: bool = False,
    pool: Pool | None = None,
) -> None:
    """Do what is left of the grid. A run that was interrupted is done anew; ended ones stay.

    A run that fails keeps its error in ``failure.json``, and the others go on. Where a process
    dies, the runs in flight are tried again one by one, and the one that dies alone has failed.

    Args:
        configuration: of the sweep.
        folder: new or empty, or the folder of this sweep.
        on_look: called now and then.
        retry_failed: do failed runs again.
        pool: does the runs; ``None`` for processes of this machine.

    Raises:
        ConfigurationError: the folder holds something else, or another process works on it.
        CutlayerError: processes cannot be started.
        StorageError: the folder cannot be written.
    """
    require_same_sweep(configuration, folder)
    with only_process(folder, "--out"):
        keep_configuration(configuration, folder)
        _run_what_is_left(configuration, folder, on_look, retry_failed=retry_failed, pool=pool)


def _run_what_is_left(
    configuration: TradeoffConfiguration,
    folder: Path,
    on_look: OnLook,
    *,
    retry_failed: bool,
    pool: Pool | None,
) -> None:
    """Every run of the grid without a result."""
    waiting = runs_left(configuration, folder, retry_failed=retry_failed)
    for run in waiting:
        # Marks of an earlier attempt: without them the run reads as waiting.
        shutil.rmtree(run_folder(folder, run), ignore_errors=True)
    if pool is not None and waiting:
        pool(configuration, waiting, folder, on_look)
        waiting = []
    while waiting:
        broken = _on_pool(configuration, waiting, folder, on_look, configuration.workers)
        in_flight = [run for run in waiting if state_of(folder, run) == "running"]
        if broken and not in_flight:
            raise CutlayerError("A process of the sweep ended before it began a run.")
        for run in in_flight if broken else ():
            if _on_pool(configuration, [run], folder, on_look, 1):
                text = "Its process died: it was killed, or the machine ran out of memory."
                failure = Failure(spec=run.spec, seed=run.seed, error=text)
                write_record(failure, run_folder(folder, run) / FAILURE_FILE)
        waiting = [run for run in waiting if state_of(folder, run) in ("waiting", "running")]
    on_look()


def _on_pool(
    configuration: TradeoffConfiguration,
    runs: Sequence[Run],
    folder: Path,
    on_look: OnLook,
    workers: int,
) -> bool:
    """Do these runs; whether a process died on the way."""
    # Not forked: a copy of a process with torch's threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(runs)), context, initializer=begin_worker)
    try:
        left = {
            pool.submit(run_and_keep, configuration, run, run_folder(folder, run)) for run in runs
        }
        while left:
            done, left = wait(left, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            on_look()
    except BrokenProcessPool:
        return True
    except BaseException:
        for child in multiprocessing.active_children():
            child.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return False
