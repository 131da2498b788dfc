"""A small vertical data set, and both parties of one run over memory."""

import threading

import polars as pl
import pytest
import torch

from cutlayer.data import PartyTable
from cutlayer.models import Top, mlp
from cutlayer.parties import LabelParty, NonLabelParty, Terms
from cutlayer.parties.top_trainer import StepInput
from cutlayer.protections import NoNoise
from cutlayer.protocol import Deadlines, in_memory_pair
from cutlayer.rng import SeededNoise

QUICK = Deadlines(connect=10, handshake=10, step=10)


def tables(records=200, *, seed=0, own_columns=2):
    """Records whose label depends on both parties' numbers; rows stand in different orders."""
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randn(records, 3 + own_columns, generator=g)
    labels = (numbers[:, 0] + numbers[:, -1] + torch.randn(records, generator=g) > 0.8).long()
    ids = [f"r{i:04d}" for i in range(records)]
    order = torch.randperm(records, generator=g)
    own = {f"own{k}": numbers[:, 3 + k].numpy() for k in range(own_columns)}
    label = PartyTable("label party", tuple(ids), pl.DataFrame(own), labels)
    shuffled = numbers[order]
    other = PartyTable(
        "non-label party",
        tuple(ids[i] for i in order),
        pl.DataFrame({f"f{k}": shuffled[:, k].numpy() for k in range(3)}),
    )
    return label, other


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def make_bottom(own, width=4):
    return mlp([own.width, 8, width], torch.Generator().manual_seed(1))


def make_top(name, cut_width, own):
    seed = {"top": 2, "message_top": 3, "prediction_top": 4}[name]
    return Top(cut_width, own.width, [8], torch.Generator().manual_seed(seed))


def terms(**changes):
    settings = {
        "run": "test",
        "data": "made",
        "protection": "x",
        "epochs": 2,
        "batch_size": 32,
        "cut_width": 4,
        "folds": 5,
        "seed": 5,
        **changes,
    }
    return Terms(**settings)


def question(step, activation, own_features, labels, share=1.0, *, visit=0, audited=False):
    """A question about records that are numbered by their rows."""
    marks = torch.arange(len(labels))[:, None].repeat(1, 2).view(torch.uint8)
    return StepInput(step, visit, marks, activation, own_features, labels, share, audited)


def run_pair(
    label_table,
    other_table,
    protection=None,
    *,
    label_terms=None,
    other_terms=None,
    observers=None,
    half_observers=None,
    canaries=0,
    noise=None,
    bottom=make_bottom,
    top=make_top,
    compute=None,
    other_compute=None,
    other_progress=(),
    optimizer=adam,
):
    """Run both parties in two threads; returns both halves, or raises the label party's error."""
    here, there = in_memory_pair()
    outcome = {}
    label = LabelParty(
        label_table,
        label_terms or terms(),
        protection or NoNoise(),
        top,
        optimizer,
        noise=noise or SeededNoise(9),
        canaries=canaries,
        observers=observers,
        deadlines=QUICK,
        compute=compute,
    )
    other = NonLabelParty(
        other_table,
        other_terms or label_terms or terms(),
        bottom,
        optimizer,
        observers=half_observers,
        progress=other_progress,
        deadlines=QUICK,
        compute=other_compute or compute,
    )

    def play():
        try:
            outcome["half"] = other.run(there)
        except Exception as error:  # noqa: BLE001
            outcome["error"] = error

    thread = threading.Thread(target=play)
    thread.start()
    try:
        top_half = label.run(here)
    except Exception as error:
        thread.join()
        error.peer_error = outcome.get("error")
        raise
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return top_half, outcome["half"]


@pytest.fixture
def pair():
    return tables()
