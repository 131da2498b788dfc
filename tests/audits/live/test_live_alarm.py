import pytest

from cutlayer.audits.live.live_alarm import SETTLED, LiveAlarm
from cutlayer.audits.live.live_leak import LiveReading
from cutlayer.errors import LeakStopError


def reading(median, *, step=0, batches=SETTLED):
    return LiveReading(step, "norm", median, median, batches)


def test_it_warns_once_until_the_leak_has_fallen():
    told = []
    alarm = LiveAlarm(told.append, warn_above=0.7)
    for step, median in enumerate((0.6, 0.71, 0.72, 0.7, 0.9)):
        alarm(reading(median, step=step))
    assert len(told) == 2
    assert "at step 1 " in told[0]
    assert "0.710, above warn_above = 0.7" in told[0]
    assert "Training goes on" in told[0]
    assert "at step 4 " in told[1]


def test_the_first_batches_are_not_believed():
    told = []
    alarm = LiveAlarm(told.append, warn_above=0.7, stop_above=0.8)
    alarm(reading(1.0, batches=SETTLED - 1))
    assert told == []


def test_it_stops_only_where_that_was_asked_for():
    LiveAlarm(pytest.fail).stop(reading(1.0))
    alarm = LiveAlarm(pytest.fail, stop_above=0.8)
    with pytest.raises(LeakStopError, match=r"step 7.*0.900, above stop_above = 0.8.*no guarantee"):
        alarm.stop(reading(0.9, step=7))
    alarm.stop(reading(0.8))
    alarm.stop(reading(1.0, batches=SETTLED - 1))


def test_a_reading_that_stops_the_training_is_not_said_to_let_it_go_on():
    told = []
    alarm = LiveAlarm(told.append, warn_above=0.7, stop_above=0.8)
    alarm(reading(0.9))
    assert told == []
    alarm(reading(0.8))
    assert len(told) == 1


@pytest.mark.parametrize("name", ["warn_above", "stop_above"])
def test_thresholds_are_leak_aucs(name):
    with pytest.raises(ValueError, match=f"{name} must lie strictly between"):
        LiveAlarm(pytest.fail, **{name: 0.5})
