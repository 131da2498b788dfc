"""A prediction that cannot be: one party says what to mend, the other that its peer could not."""

import pytest

from tests.protocol.networks import make_identities
from tests.runs.test_two_commands import Pair


@pytest.fixture(params=["grpc", "tls"])
def unlike(request, tmp_path, unused_port):
    """Two parties that trust each other, and have trained nothing."""
    pair = Pair(tmp_path, unused_port)
    make_identities(tmp_path)
    pair.settings |= {"insecure_loopback": "false", "transport": f'"{request.param}"'}
    pair.own["label"]["identity"] = '"../label-party"'
    pair.own["other"]["identity"] = '"../non-label-party"'
    pair.write_configurations()
    return pair


@pytest.mark.parametrize("failing", ["label", "other"])
def test_the_peer_is_told_over_a_real_transport(unlike, failing):
    # The other party has its half, so that it waits for its peer.
    waiting = "other" if failing == "label" else "label"
    alone = {"insecure_loopback": "true"}
    unlike.write_configurations(**alone)
    for done in unlike.run().values():
        assert done[0] == 0, done
    for kept in unlike.kept(failing).glob("encoder.json"):
        kept.unlink()
    unlike.write_configurations()
    peer = unlike.start(waiting, command="predict")
    if waiting == "label":
        peer.wait_until_said("Listening on")
    party = unlike.start(failing, command="predict")
    _, complaint = party.communicate(timeout=120)
    assert party.returncode == 2
    name = "label party" if failing == "label" else "non-label party"
    assert complaint.startswith(f"{name}: There is no ")
    assert "Train to the end" in complaint
    _, told = peer.communicate(timeout=120)
    assert peer.returncode == 1
    assert f"the {name} ended the session" in " ".join(told.split())
