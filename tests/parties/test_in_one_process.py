"""Both parties joined by memory: what they train, and whose error is told."""

import threading

import pytest
import torch

from cutlayer.parties import LabelParty, NonLabelParty, run_in_one_process
from cutlayer.protections import NoNoise
from cutlayer.rng import SeededNoise
from tests.parties.conftest import QUICK, adam, make_bottom, make_top, run_pair, terms


def parties(pair, *, top=make_top, bottom=make_bottom):
    label = LabelParty(
        pair[0], terms(), NoNoise(), top, adam, noise=SeededNoise(9), deadlines=QUICK
    )
    return label, NonLabelParty(pair[1], terms(), bottom, adam, deadlines=QUICK)


def test_it_trains_what_two_threads_of_ones_own_train(pair):
    top, bottom = run_in_one_process(*parties(pair))
    other_top, other_bottom = run_pair(*pair)
    assert top.test.auc == other_top.test.auc
    for mine, others in zip(
        bottom.bottom.parameters(), other_bottom.bottom.parameters(), strict=True
    ):
        assert torch.equal(mine, others)


def test_the_error_of_the_non_label_party_is_told_and_not_its_echo(pair):
    def refuse(_):
        raise RuntimeError("no room for the bottom half")

    with pytest.raises(RuntimeError, match="no room for the bottom half"):
        run_in_one_process(*parties(pair, bottom=refuse))


def test_an_error_of_the_label_party_ends_the_thread(pair):
    def refuse(*_):
        raise RuntimeError("no room for the top half")

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="no room for the top half"):
        run_in_one_process(*parties(pair, top=refuse))
    assert threading.active_count() == before
