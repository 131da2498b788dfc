"""The run key: 32 bytes, all of which count, for every purpose."""

import hashlib
import hmac
import os

import pytest
import torch

from cutlayer.errors import ConfigurationError
from cutlayer.parties.run_key import RunKey
from cutlayer.rng import SecretNoise

SECRET = bytes(range(32))
ACTIVATION = torch.ones(2, 3)


def derived(secret):
    """All that follows from a run key, by purpose."""
    key = RunKey(secret)
    noise = key.noise()
    marks = noise.marks(["a", "b", "c"], bytes(32))
    key.seed_torch(7)
    return {
        "noise of a message": noise.for_release(0, torch.ones(2)).normal(4).tolist(),
        "noise of a visit": noise.for_visit(0, marks, 1.0).normal(3).tolist(),
        "order": key.order_nonce,
        "labels": key.labels_key,
        "features": key.features_key,
        "labelling": key.sealed_labelling(bytes(32)),
        "dropout": torch.rand(4).tolist(),
    }


@pytest.mark.parametrize("position", range(32))
def test_every_byte_of_the_key_decides_whatever_follows_from_it(position):
    """A key of which 4 bytes count could be found by trial."""
    changed = bytearray(SECRET)
    changed[position] ^= 0x80
    before, again, after = derived(SECRET), derived(SECRET), derived(bytes(changed))
    assert before == again
    for purpose, value in before.items():
        assert after[purpose] != value, purpose


def test_each_purpose_has_its_own_key_of_32_bytes():
    """The peer hears the nonce of the order, so nothing else may follow from it."""

    def expected(purpose):
        return hmac.new(SECRET, purpose, hashlib.sha256).digest()

    key = RunKey(SECRET)
    assert key.order_nonce == expected(b"order")
    sealed = hmac.new(expected(b"labelling"), b"digest", hashlib.sha256).hexdigest()
    assert key.sealed_labelling(b"digest") == sealed
    source = SecretNoise(expected(b"noise"))
    drawn = key.noise().for_release(1, ACTIVATION).normal(4)
    assert torch.equal(drawn, source.for_release(1, ACTIVATION).normal(4))
    key.seed_torch(7)
    seed = int.from_bytes(expected(b"step 7")[:8], "little") >> 1
    assert torch.equal(torch.rand(4), torch.rand(4, generator=torch.Generator().manual_seed(seed)))


def test_a_key_is_32_bytes_of_the_system_and_stays(tmp_path, monkeypatch):
    asked = []
    given = os.urandom

    def system(count):
        asked.append(given(count))
        return asked[-1]

    monkeypatch.setattr(os, "urandom", system)
    path = tmp_path / "run.key"
    key = RunKey.kept_at(path)
    assert path.read_bytes() in asked
    assert len(path.read_bytes()) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    again = RunKey.kept_at(path)
    assert again.order_nonce == key.order_nonce == RunKey.read_from(path).order_nonce
    assert RunKey.kept_at(tmp_path / "other.key").order_nonce != key.order_nonce


@pytest.mark.parametrize("content", [b"", bytes(4), bytes(31), bytes(33)])
def test_a_key_of_another_length_is_refused(tmp_path, content):
    path = tmp_path / "run.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=f"has {len(content)} bytes where 32 belong"):
        RunKey.kept_at(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_key_that_others_can_reach_is_refused(tmp_path, mode):
    path = tmp_path / "run.key"
    RunKey.kept_at(path)
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        RunKey.read_from(path)
