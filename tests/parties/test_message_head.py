"""Labels reach the non-label party through the noisy residual, and by no other way."""

from dataclasses import dataclass

import pytest
import torch
from typing_extensions import override

from cutlayer.data import PartyTable
from cutlayer.parties import Compute
from cutlayer.protections import Residual
from cutlayer.protocol import InMemoryTransport, Kind
from tests.parties.conftest import run_pair, tables, terms
from tests.parties.test_two_parties import weights


@dataclass(frozen=True)
class LabelFree(Residual):
    """Numbers in place of the noisy residual, which know no labels."""

    @override
    def noisy_residual(self, logit, labels, *, noise):
        return torch.linspace(-2, 3, len(labels), dtype=logit.dtype, device=logit.device)


def trained_on(labels, monkeypatch, settings, **options):
    """Both halves, and what either party sent, to the byte."""
    table, other = tables()
    sent = []

    def kept(transport, header, payload, *, deadline, send=InMemoryTransport.send):
        # What comes before the first activation holds a nonce and the time; no label is read yet.
        greeting = header[6] in (Kind.HELLO, Kind.IDS, Kind.SPLIT)
        sent.append((header[6], len(payload)) if greeting else (bytes(header), bytes(payload)))
        send(transport, header, payload, deadline=deadline)

    with monkeypatch.context() as patch:
        patch.setattr(InMemoryTransport, "send", kept)
        table = PartyTable(table.party, table.ids, table.features, labels)
        halves = run_pair(
            table, other, LabelFree(sigma=1.0), label_terms=terms(**settings), **options
        )
    return halves, sorted(sent, key=str)  # two threads send, so their order is no fact


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"epochs": 3}, {}),
        ({"micro_batches": 2, "staleness": 1}, {}),
        ({}, {"observers": lambda agreement, canaries: [Audited()]}),
        ({"wire": "bfloat16"}, {}),
        ({}, {"compute": Compute(autocast=torch.bfloat16)}),
        ({}, {"canaries": 60}),
    ],
    ids=["plain", "in parts", "audited", "bfloat16 on the wire", "autocast", "canaries"],
)
def test_the_message_head_learns_from_the_noisy_residual_alone(monkeypatch, settings, options):
    first = tables()[0].labels
    second = 1 - first.roll(1)
    assert (first != second).any()
    (top, bottom), sent = trained_on(first, monkeypatch, settings, **options)
    (other_top, other_bottom), other_sent = trained_on(second, monkeypatch, settings, **options)
    assert sent == other_sent
    assert torch.equal(weights(bottom.bottom), weights(other_bottom.bottom))
    message, other_message = top.halves["message_top"], other_top.halves["message_top"]
    assert torch.equal(weights(message), weights(other_message))
    # The control: the labels were others, and something learnt from them.
    predicted, other_predicted = top.halves["prediction_top"], other_top.halves["prediction_top"]
    assert not torch.equal(weights(predicted), weights(other_predicted))


class Audited:
    """Makes the label party compute clean gradients beside what it sends."""

    def on_release(self, release, labels, clean_gradient):
        pass
