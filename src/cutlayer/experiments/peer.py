"""The non-label party's process of a comparison: ``python -m cutlayer.experiments.peer``."""

import sys
from pathlib import Path

import torch

from cutlayer.data import DATASETS
from cutlayer.errors import CutlayerError, PeerEndedError
from cutlayer.escaping import escaped
from cutlayer.experiments.comparison import pending, training_folder
from cutlayer.experiments.plan import ALONE, read_plan
from cutlayer.experiments.two_parties import NON_LABEL_FOLDER, build_non_label_party
from cutlayer.parties.checkpoint import save_half
from cutlayer.protocol import Address, Deadlines, GrpcConnector, Role, load_identity


def run_peer(run_folder: Path, port: int, identity: Path) -> None:
    """Play the non-label party in every training that is not done yet.

    Args:
        run_folder: of the comparison.
        port: where the label party listens on this machine.
        identity: folder of this party's identity, with the label party's certificate pinned.

    Raises:
        CutlayerError: a training failed.
    """
    torch.set_num_threads(1)
    plan = read_plan(run_folder)
    table = DATASETS[plan.data]().non_label_party_table()
    connector = GrpcConnector(Address("127.0.0.1", port), load_identity(identity, Role.NON_LABEL))
    for training in pending(plan, run_folder):
        if training.spec == ALONE:
            continue
        folder = training_folder(run_folder, training)
        party = build_non_label_party(plan, training, table, folder)
        half = party.run(connector.meet(deadline=Deadlines().connect))
        save_half(folder / NON_LABEL_FOLDER, {"bottom": half.bottom}, half.inputs.encoder)


def main() -> int:
    """Run, and say in one line what went wrong."""
    try:
        run_peer(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    except PeerEndedError as error:
        sys.stderr.write(f"{escaped(str(error))}\n")
        return 0 if error.stopped else 1
    except CutlayerError as error:
        sys.stderr.write(f"{escaped(str(error))}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
