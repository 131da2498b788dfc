"""Checks of the machine: versions, threads, entropy, clock, and how TCP is set."""

import ctypes
import os
import platform
import ssl
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from cutlayer.audits.worker_process import available_cores
from cutlayer.operation.checkup import Check, ok, warning

_PROC_SYS = Path("/proc/sys")
_TIMEX_BYTES = 512
"""More than the kernel's struct timex has; its first word, 0, asks and sets nothing."""
_UNSYNCHRONISED = 5
_CLOCK_SLACK_SECONDS = 3600


def check_versions() -> Check:
    """What is installed, for whoever compares two parties."""
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("cutlayer", "torch", "grpcio", "cryptography")
    )
    return ok("versions", f"{packages}, Python {platform.python_version()}, {ssl.OPENSSL_VERSION}")


def check_threads(threads: int) -> Check:
    """Whether this process may use as many cores as the configuration asks for."""
    cores = available_cores()
    if threads > cores:
        return warning(
            "threads",
            f"{threads} threads on {cores} cores",
            f"Set threads = {cores}. A run that was begun with {threads} must go on with "
            f"{threads}: sums are rounded differently with another number.",
        )
    return ok("threads", f"{threads} of {cores} cores")


def check_entropy() -> Check:
    """Whether the operating system's generator is seeded: keys and noise come from it."""
    if not hasattr(os, "getrandom"):
        return ok("entropy", f"{len(os.urandom(32))} bytes from the operating system")
    try:
        os.getrandom(32, os.GRND_NONBLOCK)
    except BlockingIOError:
        return warning(
            "entropy",
            "the kernel's generator is not seeded yet; a start waits for it",
            "Wait, or give the machine a source: a virtio-rng device, or the package rng-tools.",
        )
    return ok("entropy", "getrandom is seeded")


def check_clock(synchronised: bool | None = None, now: float | None = None) -> Check:
    """Whether the clock can be right; certificates are judged by it, training is not.

    Args:
        synchronised: whether the kernel says that something keeps the clock; asked by default.
        now: seconds since 1970; the clock's by default.
    """
    now = time.time() if now is None else now
    shown = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"
    installed = Path(__file__).stat().st_mtime
    if now + _CLOCK_SLACK_SECONDS < installed:
        return warning(
            "clock",
            f"{shown}, before cutlayer was installed here",
            "Set the clock: certificates will be taken for not yet valid.",
        )
    synchronised = _is_synchronised() if synchronised is None else synchronised
    if synchronised is False:
        return warning(
            "clock",
            f"{shown}; the kernel says that nothing keeps it right",
            "Start a time service (chrony, systemd-timesyncd), or compare with the peer's clock.",
        )
    kept = "kept by a time service" if synchronised else "who keeps it is not known here"
    return ok("clock", f"{shown}, {kept}")


def check_tcp(*, far: bool, proc_sys: Path = _PROC_SYS) -> Check:
    """Whether TCP forgets between two messages how fast the link is.

    With ``cubic``, 50 ms of round trip and half a second of pause, 512 KiB took 557 ms, and 68 ms
    with the one setting that the fix names.

    Args:
        far: whether the peer is on another machine.
        proc_sys: where Linux shows its settings.
    """
    ipv4 = proc_sys / "net" / "ipv4"
    try:
        control = (ipv4 / "tcp_congestion_control").read_text().strip()
        slow_start = (ipv4 / "tcp_slow_start_after_idle").read_text().strip()
    except OSError:
        return ok("TCP", "no Linux settings to look at")
    found = f"{control}, tcp_slow_start_after_idle = {slow_start}"
    if slow_start == "0" or control == "bbr" or not far:
        return ok("TCP", found)
    return warning(
        "TCP",
        f"{found}: after each pause of the label party a message may take 8 times as long",
        "sysctl -w net.ipv4.tcp_slow_start_after_idle=0 (and in /etc/sysctl.d, to stay)",
    )


def _is_synchronised() -> bool | None:
    """What the kernel says of its clock; ``None`` where it cannot be asked."""
    try:
        answer = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else bool(answer != _UNSYNCHRONISED)
