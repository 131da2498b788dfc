"""Runs on Ray: the cores of this machine, or those of a cluster."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch

from cutlayer.errors import ConfigurationError
from cutlayer.experiments.tradeoff.configuration import TradeoffConfiguration
from cutlayer.experiments.tradeoff.grid import Run
from cutlayer.experiments.tradeoff.result import FAILURE_FILE, Failure, run_folder, write_record
from cutlayer.experiments.tradeoff.sweep import LOOK_SECONDS, OnLook
from cutlayer.experiments.tradeoff.training import run_and_keep

LOCAL = "local"
"""In place of a cluster's address: Ray on this machine alone."""


def run_on_ray(
    configuration: TradeoffConfiguration,
    runs: Sequence[Run],
    folder: Path,
    on_look: OnLook,
    address: str,
) -> None:
    """Do these runs as Ray tasks of one core each; one whose process dies has failed.

    Args:
        configuration: of the sweep.
        runs: that are left.
        folder: of the sweep; on a cluster, a path that every machine has in common, as the data's.
        on_look: called now and then.
        address: of a cluster, ``auto`` for the one that this machine belongs to, or ``local``.

    Raises:
        ConfigurationError: Ray is not installed, or cannot be reached.
    """
    ray = required_ray()
    local = address == LOCAL
    try:
        ray.init(
            address=LOCAL if local else address,
            num_cpus=configuration.workers if local else None,
            include_dashboard=False if local else None,
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"--ray: {address} cannot be used ({error}).") from error
    try:
        task = ray.remote(num_cpus=1, max_retries=0)(_on_one_core)
        left = {
            task.remote(configuration, run, run_folder(folder.absolute(), run)): run for run in runs
        }
        while left:
            done, _ = ray.wait(list(left), timeout=LOOK_SECONDS)
            for reference in done:
                run = left.pop(reference)
                try:
                    ray.get(reference)
                except ray.exceptions.RayError as error:
                    _keep_failure(folder, run, error)
            on_look()
    finally:
        ray.shutdown()


def required_ray() -> ModuleType:
    """Ray itself.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigurationError(
            "--ray: Ray is not installed. Install cutlayer[ray], or leave --ray out for a pool of "
            "processes."
        ) from error


def _on_one_core(configuration: TradeoffConfiguration, run: Run, folder: Path) -> None:
    """One run, with one thread for computing."""
    torch.set_num_threads(1)
    run_and_keep(configuration, run, folder)


def _keep_failure(folder: Path, run: Run, error: Exception) -> None:
    """A run whose process ended has no error of its own."""
    own = run_folder(folder, run)
    own.mkdir(parents=True, exist_ok=True)
    text = f"Its process died ({type(error).__name__}): killed, or out of memory."
    write_record(Failure(spec=run.spec, seed=run.seed, error=text), own / FAILURE_FILE)
