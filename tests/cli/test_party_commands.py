from io import StringIO

import pytest
import torch

from cutlayer.audits.live.live_alarm import SETTLED
from cutlayer.cli.console import screen
from cutlayer.cli.party_commands import _announce, _live_progress
from cutlayer.errors import LeakStopError
from cutlayer.operation.status import RunStatus
from cutlayer.runs.configuration import LabelConfiguration
from cutlayer.transcript.release import Release


def test_an_ipv6_address_is_shown_whole():
    configuration = LabelConfiguration(
        run="r",
        file="f.csv",
        id="id",
        label="y",
        protection="no_noise",
        address="[fd00::1]:7700",
    )
    shown, console = StringIO(), screen()
    console.file = shown
    _announce(configuration, console)(7701)
    assert shown.getvalue() == "Listening on [fd00::1]:7701 for the non-label party.\n"


def leaking_steps(progress, shown):
    """Replies that tell all; what the terminal has said of a leak before and after each left."""
    labels = torch.tensor([1, 1, 1, 0, 0, 0])
    gradient = torch.stack([labels * 9.0 + 1, labels - 0.5], dim=1)
    for step in range(SETTLED):
        release = Release(step, 0, torch.arange(6), torch.zeros(6, 1), gradient)
        progress.on_release(release, labels, gradient)
        before = "Leak: " in shown.getvalue()
        progress.on_progress(step + 1, SETTLED, 6)
        yield before, "Leak: " in shown.getvalue()


def live_label_party(**thresholds):
    configuration = LabelConfiguration(
        run="r", file="f.csv", id="id", label="y", protection="no_noise", live_every=1, **thresholds
    )
    shown, console = StringIO(), screen()
    console.file = shown
    return configuration, RunStatus(epochs=1, planned_releases=1, releases=True), console, shown


def test_a_leak_is_warned_of_once_the_reply_has_left():
    *given, shown = live_label_party(warn_above=0.7)
    with _live_progress(*given) as progress:
        said = list(leaking_steps(progress, shown))
    assert said == [(False, False)] * (SETTLED - 1) + [(False, True)]
    assert given[1].leak_auc == 1.0


def test_the_reading_that_stops_a_training_is_noted_and_not_warned_of():
    *given, shown = live_label_party(warn_above=0.7, stop_above=0.8)
    status, steps = given[1], []

    def train(progress):
        for said in leaking_steps(progress, shown):
            steps.append(said)
            status.leak_auc = None  # so that the next reading is seen to be noted

    with pytest.raises(LeakStopError, match="stop_above"), _live_progress(*given) as progress:
        train(progress)
    assert steps == [(False, False)] * (SETTLED - 1)
    assert status.leak_auc == 1.0
    assert "Leak: " not in shown.getvalue()
