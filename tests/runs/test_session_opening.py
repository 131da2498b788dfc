"""A peer that comes while no session is open is told that the other party ends, all the same."""

import threading

import pytest

from cutlayer.errors import ConnectionLostError, DataError, PeerEndedError
from cutlayer.protocol import Address, Kind, Role, Session, StreamConnector
from cutlayer.runs.configuration import LabelConfiguration
from cutlayer.runs.session_opening import endpoint_of, meeting, met, telling_peer


@pytest.fixture
def label(tmp_path, unused_port):
    return LabelConfiguration(
        run="r",
        file=tmp_path / "table.csv",
        id="id",
        label="y",
        protection="no_noise",
        address=f"127.0.0.1:{unused_port}",
        insecure_loopback=True,
    )


def hears(connector):
    """What a non-label party that connects now comes to hear."""
    with Session(Role.NON_LABEL, connector.meet(deadline=10), run="r") as session:
        session.receive_fields(Kind.HELLO)


def at(label):
    return StreamConnector(Address.parse(label.address))


def test_a_peer_that_has_connected_anew_while_the_old_session_failed(label):
    with endpoint_of(label) as endpoint, at(label) as connector:
        old = connector.meet(deadline=10)
        here = endpoint.meet(deadline=10)
        anew = connector.meet(deadline=10)  # the old one is over, and nobody has met this one
        with pytest.raises(DataError), met(label, endpoint):
            raise DataError("of the old session")
        old.close()
        here.close()
        with pytest.raises(PeerEndedError, match="an error of its own"):
            Session(Role.NON_LABEL, anew, run="r").receive_fields(Kind.HELLO)


def test_what_ends_a_party_after_the_farewell_is_not_told(label):
    """It may depend on labels."""
    with endpoint_of(label) as endpoint, at(label) as connector:
        old = connector.meet(deadline=10)
        here = endpoint.meet(deadline=10)
        anew = connector.meet(deadline=10)
        with pytest.raises(DataError), met(label, endpoint, has_left=lambda: True):
            raise DataError("of its labels")
        old.close()
        here.close()
    with pytest.raises(ConnectionLostError) as lost:
        Session(Role.NON_LABEL, anew, run="r").receive_fields(Kind.HELLO)
    assert not isinstance(lost.value, PeerEndedError)


def test_a_peer_that_is_about_to_call_when_a_party_that_waits_is_stopped(label):
    heard = []

    def call():
        with at(label) as connector, pytest.raises(PeerEndedError) as ended:
            hears(connector)
        heard.append(ended.value)

    peer = threading.Timer(0.3, call)
    with endpoint_of(label) as endpoint:
        peer.start()
        with pytest.raises(KeyboardInterrupt), meeting(label, endpoint):
            raise KeyboardInterrupt
        peer.join()
    assert heard[0].stopped


def test_no_block_tells_once_there_is_an_endpoint(label):
    def open_and_fail():
        with telling_peer(label), telling_peer(label):
            endpoint_of(label).close()
            raise DataError("of a later time")

    with pytest.raises(DataError):
        open_and_fail()
    with endpoint_of(label):  # the port is free: nobody lingers there
        pass
