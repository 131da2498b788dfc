"""The two parties of a run."""

from cutlayer.parties.agreement import Agreement
from cutlayer.parties.canaries import Canaries
from cutlayer.parties.checkpoint import CheckpointStore
from cutlayer.parties.compute import Compute
from cutlayer.parties.evaluation import Evaluation
from cutlayer.parties.in_one_process import run_in_one_process
from cutlayer.parties.inputs import Inputs, InputShape
from cutlayer.parties.label_party import LabelParty
from cutlayer.parties.non_label_party import BottomHalf, NonLabelParty
from cutlayer.parties.observers import HalfObserver, ProgressObserver, ReleaseObserver
from cutlayer.parties.persistence import Persistence
from cutlayer.parties.release_journal import ReleaseJournal
from cutlayer.parties.run_key import RunKey
from cutlayer.parties.terms import Terms
from cutlayer.parties.top_half import TopHalf

__all__ = [
    "Agreement",
    "BottomHalf",
    "Canaries",
    "CheckpointStore",
    "Compute",
    "Evaluation",
    "HalfObserver",
    "InputShape",
    "Inputs",
    "LabelParty",
    "NonLabelParty",
    "Persistence",
    "ProgressObserver",
    "ReleaseJournal",
    "ReleaseObserver",
    "RunKey",
    "Terms",
    "TopHalf",
    "run_in_one_process",
]
