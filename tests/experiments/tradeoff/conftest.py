import pytest
import torch

from cutlayer.experiments.tradeoff.configuration import checked
from cutlayer.experiments.tradeoff.result import run_folder
from cutlayer.experiments.tradeoff.training import run_and_keep

TINY = {
    "data": "breast-cancer",
    "epochs": 2,
    "batch_size": 64,
    "hidden": [8],
    "cut_width": 4,
    "seeds": [0, 1],
    "audit_every": 4,
    "protections": ["no_noise", "isotropic:t=[0.25,25]", "max_norm", "marvell:s=[0.1,4]"],
}


@pytest.fixture(scope="session")
def done_sweep(tmp_path_factory):
    """A configuration and the folder of its sweep, every run done in this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    configuration = checked(TINY)
    folder = tmp_path_factory.mktemp("sweep")
    for run in configuration.runs:
        run_and_keep(configuration, run, run_folder(folder, run))
    torch.set_num_threads(before)
    return configuration, folder
