"""N11: who meets whom in a batch follows from the agreed order, and neither party chooses it."""

import pytest
import torch

from cutlayer.data import BatchSchedule
from cutlayer.errors import ConfigurationError
from cutlayer.protocol import Role
from tests.faults import misbehaving_peer
from tests.faults.misbehaving_peer import play
from tests.parties.conftest import run_pair, terms


class Rows:
    def __init__(self):
        self.records, self.epochs = [], []

    def on_release(self, release, labels, clean_gradient):
        self.records.append(release.records)
        self.epochs.append(release.epoch)


def test_n11_each_record_is_once_in_each_epoch_and_no_batch_is_smaller_than_agreed(pair):
    seen = Rows()
    half, _ = run_pair(*pair, observers=lambda agreement, canaries: [seen])
    for epoch in (0, 1):
        rows = torch.cat([r for r, e in zip(seen.records, seen.epochs, strict=True) if e == epoch])
        assert torch.equal(rows.sort().values, half.agreement.train)
    assert min(len(rows) for rows in seen.records) >= terms().batch_size


def test_n11_a_batch_of_one_cannot_be_agreed_on():
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 2"):
        terms(batch_size=1)
    with pytest.raises(ConfigurationError, match="only 7 records train"):
        BatchSchedule(records=7, batch_size=8, epochs=1, seed=0)
    with pytest.raises(ConfigurationError, match=r"^label party: batch_size is 8, but only 7"):
        terms(batch_size=8).schedule(7, 0, Role.LABEL)


def test_n11_either_nonce_changes_the_order(tmp_path, monkeypatch):
    """The order comes from both, so a party that fixes its own half decides nothing."""
    journals = set()
    original = dict(misbehaving_peer._SECRET)
    for number, changed in enumerate([None, *Role]):
        secrets = {
            role: bytes(32) if role is changed else secret for role, secret in original.items()
        }
        monkeypatch.setattr(misbehaving_peer, "_SECRET", secrets)
        played = play(None, tmp_path / str(number))
        assert played.error is None
        header = played.after["files"]["journal"].split(b"\n")[0]
        journals.add(header[header.index(b'"order"') : header.index(b'"protection"')])
    assert len(journals) == 3
