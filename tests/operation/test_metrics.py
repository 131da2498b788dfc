import socket
import threading
from contextlib import ExitStack, suppress
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cutlayer.errors import ConfigurationError
from cutlayer.operation.metrics import MetricsServer
from cutlayer.operation.status import RunStatus
from cutlayer.parties.events import Event, EventKind
from cutlayer.protocol import Address, Role
from cutlayer.protocol.transports.acceptor import MOST_HANDSHAKES, MOST_SILENT

ANY_PORT = Address("127.0.0.1", 0)


def scraped(address):
    with urlopen(f"http://{address}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    samples = {s.name: (s.value, s.labels) for family in families for s in family.samples}
    return samples, {family.name: family.documentation for family in families}


def status():
    made = RunStatus(epochs=2, planned_releases=2, releases=True)
    made.on_event(Event(EventKind.MET_PEER))
    made.on_event(Event(EventKind.MET_PEER))
    made.on_event(Event(EventKind.CHECKPOINT, step=0))
    for step in range(1, 6):
        made.on_progress(step, 8, 32)
    made.bytes_sent, made.bytes_received = 1000, 3000
    made.seconds_waiting, made.seconds_computing = 1.5, 2.5
    made.leak_auc = 0.625
    return made


def test_every_metric_of_the_label_party_by_its_name_and_unit():
    with MetricsServer(ANY_PORT, status(), Role.LABEL, "credit") as server:
        samples, documents = scraped(server.address)
    assert {name: value for name, (value, _) in samples.items()} == {
        "cutlayer_steps_total": 5,
        "cutlayer_rows_total": 160,
        "cutlayer_sent_bytes_total": 1000,
        "cutlayer_received_bytes_total": 3000,
        "cutlayer_waiting_seconds_total": 1.5,
        "cutlayer_computing_seconds_total": 2.5,
        "cutlayer_reconnects_total": 1,
        "cutlayer_checkpoints_total": 1,
        "cutlayer_last_step": 5,
        "cutlayer_planned_steps": 8,
        "cutlayer_epoch": 2,
        "cutlayer_connected": 1,
        "cutlayer_journal_entries": 5,
        "cutlayer_journal_bytes": 400,
        "cutlayer_planned_releases": 2,
        "cutlayer_used_releases": 2,
        "cutlayer_leak_auc": 0.625,
    }
    assert samples["cutlayer_steps_total"][1] == {"party": "label party", "run": "credit"}
    assert documents["cutlayer_leak_auc"].startswith("PRIVATE")


def test_the_non_label_party_shows_nothing_of_labels_or_releases():
    with MetricsServer(ANY_PORT, status(), Role.NON_LABEL, "credit") as server:
        samples, _ = scraped(server.address)
    assert not {name for name in samples if "leak" in name or "release" in name}
    assert "cutlayer_steps_total" in samples


def test_it_is_read_anew_each_time_and_let_go_of_at_the_end():
    made = status()
    with MetricsServer(ANY_PORT, made, Role.LABEL, "credit") as server:
        address = server.address
        made.on_progress(6, 8, 32)
        assert scraped(address)[0]["cutlayer_steps_total"][0] == 6
        with pytest.raises(ConfigurationError, match="metrics: cannot listen"):
            MetricsServer(address, made, Role.LABEL, "credit")
    MetricsServer(address, made, Role.LABEL, "credit").close()


def test_no_leak_is_shown_before_one_was_measured():
    fresh = RunStatus(epochs=2, planned_releases=2, releases=True)
    with MetricsServer(ANY_PORT, fresh, Role.LABEL, "credit") as server:
        assert "cutlayer_leak_auc" not in scraped(server.address)[0]


def test_idle_and_slow_connections_are_few_short_and_in_nobodys_way():
    """300 of them held 300 threads before, and a training to a few steps a second."""
    with MetricsServer(ANY_PORT, status(), Role.LABEL, "credit") as server, ExitStack() as held:
        threads = threading.active_count()
        target = server.address.host, server.address.port
        strangers = [
            held.enter_context(socket.create_connection(target, timeout=10)) for _ in range(300)
        ]
        for stranger in strangers[::10]:
            stranger.sendall(b"GET /met")  # and no more
        for _ in range(3):
            assert scraped(server.address)[0]["cutlayer_steps_total"][0] == 5
        assert threading.active_count() <= threads + MOST_HANDSHAKES
        gone = sum(is_closed(stranger) for stranger in strangers)
        assert gone >= 300 - MOST_SILENT - MOST_HANDSHAKES


def is_closed(stranger):
    """Whether the other side has ended the connection."""
    stranger.settimeout(0.2)
    try:
        return stranger.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize(
    "request_",
    [b"", b"\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\xff" * 100_000, b"GET\0/ x\r\n\r\n"],
)
def test_nonsense_is_answered_by_nothing_or_an_error(request_, capfd):
    with MetricsServer(ANY_PORT, status(), Role.LABEL, "credit") as server:
        target = server.address.host, server.address.port
        with suppress(OSError), socket.create_connection(target, timeout=10) as stranger:
            stranger.sendall(request_)
            stranger.shutdown(socket.SHUT_WR)
            assert b"cutlayer_" not in stranger.recv(100_000)
        assert "cutlayer_steps_total" in scraped(server.address)[0]
    assert "Traceback" not in capfd.readouterr().err
