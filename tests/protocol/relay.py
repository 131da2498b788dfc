"""A relay between two parties through which the network can fail, as it really does.

A filter on its sockets drops every incoming segment in the kernel: no data, no acknowledgement and
no answer to a keepalive probe comes back, and neither side is told. Linux only.
"""

import ctypes
import select
import socket
import struct
import threading
from contextlib import suppress

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
# A classic BPF program of one instruction, BPF_RET | BPF_K with 0: keep no byte.
_DROP = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
_PROGRAM = struct.pack("HL", 1, ctypes.addressof(_DROP))


class Relay:
    """Copies bytes between whoever connects and a target, until the network is cut."""

    def __init__(self, host, port):
        self._target = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._sockets = [self._listening]
        self.copied = 0
        self._ended, self._counting = threading.Event(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Drop everything, also attempts to connect."""
        for each in self._sockets:
            each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, _PROGRAM)

    def heal(self):
        for each in self._sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)

    def close(self):
        self._ended.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _accept(self):
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            there = socket.create_connection(self._target)
            self._sockets += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, source, sink):
        with suppress(OSError, ValueError):
            while not self._ended.is_set():
                if not select.select([source], [], [], 0.2)[0]:
                    continue
                data = source.recv(1 << 16)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                with self._counting:
                    self.copied += len(data)
                sink.sendall(data)
