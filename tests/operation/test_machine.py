import os
import time

import pytest

from cutlayer.operation.checkup import Verdict
from cutlayer.operation.machine import (
    check_clock,
    check_entropy,
    check_tcp,
    check_threads,
    check_versions,
)


def proc_sys(folder, control, slow_start):
    ipv4 = folder / "net" / "ipv4"
    ipv4.mkdir(parents=True)
    (ipv4 / "tcp_congestion_control").write_text(control + "\n")
    (ipv4 / "tcp_slow_start_after_idle").write_text(slow_start + "\n")
    return folder


@pytest.mark.parametrize(
    ("control", "slow_start", "far", "verdict"),
    [
        ("cubic", "1", True, Verdict.WARNING),
        ("reno", "1", True, Verdict.WARNING),
        ("cubic", "0", True, Verdict.OK),
        ("bbr", "1", True, Verdict.OK),
        ("cubic", "1", False, Verdict.OK),
    ],
)
def test_tcp_settings(tmp_path, control, slow_start, far, verdict):
    check = check_tcp(far=far, proc_sys=proc_sys(tmp_path, control, slow_start))
    assert check.verdict is verdict
    assert control in check.found
    assert ("sysctl -w net.ipv4.tcp_slow_start_after_idle=0" in check.fix) is (
        verdict is Verdict.WARNING
    )


def test_a_machine_without_these_settings(tmp_path):
    assert check_tcp(far=True, proc_sys=tmp_path).verdict is Verdict.OK


def test_more_threads_than_cores():
    assert check_threads(1).verdict is Verdict.OK
    assert check_threads(10_000).verdict is Verdict.WARNING


def test_a_clock_that_was_set_back_or_is_kept_by_nobody():
    year = 365 * 86_400
    assert check_clock(True, time.time() - 40 * year).verdict is Verdict.WARNING
    assert check_clock(False).verdict is Verdict.WARNING
    assert check_clock(True).verdict is Verdict.OK
    assert check_clock().subject == "clock"  # the kernel's own answer, whatever it is


def test_versions_and_entropy():
    found = check_versions().found
    for name in ("cutlayer", "torch", "grpcio", "Python", "OpenSSL"):
        assert name in found
    assert check_entropy().verdict is Verdict.OK


def test_a_generator_that_is_not_seeded(monkeypatch):
    def unseeded(*_):
        raise BlockingIOError

    monkeypatch.setattr(os, "getrandom", unseeded)
    assert check_entropy().verdict is Verdict.WARNING
