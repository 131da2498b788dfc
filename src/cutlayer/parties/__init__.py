"""The two parties of a run."""

from cutlayer.parties.canaries import Canaries
from cutlayer.parties.evaluation import Evaluation
from cutlayer.parties.handshake import Agreement
from cutlayer.parties.label_party import LabelParty, TopHalf
from cutlayer.parties.non_label_party import BottomHalf, NonLabelParty
from cutlayer.parties.observers import HalfObserver, ProgressObserver, ReleaseObserver
from cutlayer.parties.terms import Terms

__all__ = [
    "Agreement",
    "BottomHalf",
    "Canaries",
    "Evaluation",
    "HalfObserver",
    "LabelParty",
    "NonLabelParty",
    "ProgressObserver",
    "ReleaseObserver",
    "Terms",
    "TopHalf",
]
