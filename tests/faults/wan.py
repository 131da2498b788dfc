"""A far link between two network namespaces: delay, rate, a queue, loss, and standstill.

Each party's namespace has a TUN device. For each direction a process of its own reads the packets
of one device and writes them to the other, late; SIGSTOP of that process is a network that stands
still in this direction. The kernel's TCP at both ends is the real one. Needs root.
"""

import ctypes
import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from itertools import count
from pathlib import Path

ADDRESS = {"label": "10.77.0.1", "other": "10.77.0.2"}
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_LARGEST_PACKET = 1 << 16
_NUMBERS = count()


def namespace_of(link: str, party: str) -> str:
    """The network namespace in which a party lives."""
    return f"{link}-{party}"


def enter(namespace: str) -> None:
    """Move this thread, and all that it will start, into a namespace of ``ip netns``."""
    with Path("/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


class FarLink:
    """Two namespaces, and what lies between them.

    Args:
        round_trip: seconds, half of it in each direction.
        rate: bits a second in each direction.
        queue: bytes that may wait for the line; what comes beyond them is lost.
        loss: share of packets that are lost at random.
        settings: of the kernel's TCP in both namespaces, by sysctl name.
    """

    def __init__(
        self,
        *,
        round_trip: float = 0.0,
        rate: float = 500e6,
        queue: int = 8 << 20,
        loss: float = 0.0,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.name = f"cutlayer-{os.getpid()}-{next(_NUMBERS)}"
        self._round_trip, self._rate, self._queue, self._loss = round_trip, rate, queue, loss
        self._devices: dict[str, int] = {}
        self._relays: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for party in ADDRESS:
                self._devices[party] = self._make_end(party, settings or {})
        except BaseException:
            self.close()
            raise
        self.restore()

    def freeze(self, *parties: str) -> None:
        """Let nothing that these parties send get through; without names, neither's."""
        for party in parties or ADDRESS:
            self._relays[party].send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let everything through again, what was held back at first."""
        for relay in self._relays.values():
            relay.send_signal(signal.SIGCONT)

    def cut(self) -> None:
        """Lose everything that is sent, until :meth:`restore`."""
        for relay in self._relays.values():
            relay.kill()
            relay.wait()
        self._relays.clear()

    def restore(self) -> None:
        """Let what is sent from now on through."""
        options = [self._round_trip / 2, self._rate, self._queue, self._loss]
        sinks = dict(zip(self._devices, reversed(self._devices.values()), strict=True))
        for party, source in self._devices.items():
            sink = sinks[party]
            with suppress(BlockingIOError):
                while True:
                    os.read(source, _LARGEST_PACKET)
            command = [sys.executable, __file__, *map(str, (source, sink, *options))]
            self._relays[party] = subprocess.Popen(command, pass_fds=(source, sink))

    def change_rate(self, rate: float) -> None:
        """Go on with another rate; what is on its way is lost."""
        self.cut()
        self._rate = rate
        self.restore()

    def close(self) -> None:
        """Take everything down; safe to call again."""
        self.cut()
        for party in tuple(self._devices):
            os.close(self._devices.pop(party))
        for party in ADDRESS:
            with suppress(OSError):
                _ip("netns", "del", namespace_of(self.name, party))

    def connect_seconds(self) -> float:
        """How long a TCP connection to a port where nobody listens takes to be refused."""
        code = (
            "import socket, sys, time\nbegan = time.perf_counter()\n"
            "socket.socket().connect_ex((sys.argv[1], 1))\nprint(time.perf_counter() - began)"
        )
        space = namespace_of(self.name, "other")
        return min(
            float(_ip("netns", "exec", space, sys.executable, "-c", code, ADDRESS["label"]))
            for _ in range(3)
        )

    def _make_end(self, party: str, settings: dict[str, str]) -> int:
        """A namespace with a device, and the descriptor of that device."""
        space, device = namespace_of(self.name, party), f"ct{os.getpid()}{party[0]}"
        _ip("netns", "add", space)
        number = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        asked = struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI)
        fcntl.ioctl(number, _TUNSETIFF, asked)
        _ip("link", "set", device, "netns", space)
        for command in (
            f"addr add {ADDRESS[party]}/24 dev {device}",
            f"link set {device} up txqueuelen 10000",
            "link set lo up",
        ):
            _ip("-n", space, *command.split())
        for name, value in settings.items():
            _ip("netns", "exec", space, "sysctl", "-qw", f"{name}={value}")
        return number

    def __enter__(self) -> "FarLink":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ip(*words: str) -> str:
    """Call ``ip``; returns what it says."""
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def relay(source: int, sink: int, delay: float, rate: float, queue: int, loss: float) -> None:
    """Carry packets in one direction until killed."""
    chance = random.Random(source)  # noqa: S311
    waiting: deque[tuple[float, bytes]] = deque()
    line_free = time.monotonic()
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        select.select([source], [], [], pause)
        with suppress(BlockingIOError):
            for _ in range(64):  # then see what is due
                packet = os.read(source, _LARGEST_PACKET)
                now = time.monotonic()
                line_free = max(line_free, now)
                if chance.random() < loss or (line_free - now) * rate / 8 > queue:
                    continue
                line_free += 8 * len(packet) / rate
                waiting.append((line_free + delay, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            with suppress(OSError):  # the other end is not up yet
                os.write(sink, waiting.popleft()[1])


if __name__ == "__main__":
    numbers = [float(word) for word in sys.argv[3:]]
    relay(int(sys.argv[1]), int(sys.argv[2]), numbers[0], numbers[1], int(numbers[2]), numbers[3])
