import sys
import warnings
from types import SimpleNamespace

import pytest

from cutlayer.audits.live.live_leak import LiveReading
from cutlayer.audits.live.tracking import BATCH, MEDIAN, Tracking, open_tracker
from cutlayer.errors import ConfigurationError

READINGS = [LiveReading(step, "norm", 0.5 + step / 1000, 0.6, 3) for step in (0, 50, 100)]


def test_tensorboard_files_hold_what_was_read(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (cutlayer[tracking])")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TensorBoard's own imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        tracker = open_tracker(f"tensorboard:{tmp_path}")
        for reading in READINGS:
            Tracking(tracker, print)(reading)
        tracker.close()
        events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, round(e.value, 6)) for e in events.Scalars(BATCH)] == [
        (0, 0.5), (50, 0.55), (100, 0.6),
    ]  # fmt: skip
    assert [e.step for e in events.Scalars(MEDIAN)] == [0, 50, 100]


def test_mlflow_is_given_each_reading(monkeypatch):
    calls = []
    fake = SimpleNamespace(
        set_tracking_uri=lambda uri: calls.append(("uri", uri)),
        start_run=lambda run_name: calls.append(("start", run_name)),
        log_metric=lambda name, value, step: calls.append((name, value, step)),
        end_run=lambda: calls.append(("end",)),
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    tracker = open_tracker("mlflow:http://127.0.0.1:5000")
    Tracking(tracker, print)(READINGS[1])
    tracker.close()
    assert calls == [
        ("uri", "http://127.0.0.1:5000"),
        ("start", "cutlayer live audit"),
        (BATCH, 0.55, 50),
        (MEDIAN, 0.6, 50),
        ("end",),
    ]


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigurationError, match=r"mlflow is not installed.*cutlayer\[tracking\]"):
        open_tracker("mlflow:file:runs")


@pytest.mark.parametrize("text", ["", "tensorboard", "tensorboard:", "wandb:here"])
def test_other_trackers_are_refused(text):
    with pytest.raises(ConfigurationError, match="track must be one of tensorboard:WHERE"):
        open_tracker(text)


class Broken:
    """A tracker whose server has gone."""

    calls = 0

    def log(self, name, value, step):
        self.calls += 1
        raise OSError("no route to host")

    def close(self):
        self.calls += 1


def test_a_tracker_that_fails_is_told_of_once_and_left():
    broken, told = Broken(), []
    tracking = Tracking(broken, told.append)
    for reading in READINGS:
        tracking(reading)
    tracking.close()
    assert broken.calls == 1
    assert len(told) == 1
    assert "track" in told[0]
    assert "no route to host" in told[0]
    assert "training goes on" in told[0]


def test_a_server_that_begins_no_run_is_named(monkeypatch):
    def refuse(run_name):
        raise OSError("refused")

    fake = SimpleNamespace(set_tracking_uri=lambda address: None, start_run=refuse)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    with pytest.raises(ConfigurationError, match=r"MLflow begins no run at http://gone.*refused"):
        open_tracker("mlflow:http://gone")
