from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cutlayer.errors import ConfigurationError
from cutlayer.operation.metrics import MetricsServer
from cutlayer.operation.status import RunStatus
from cutlayer.parties.events import Event, EventKind
from cutlayer.protocol import Address, Role

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
