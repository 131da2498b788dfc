"""The event loop of this process that carries gRPC, behind callers that wait in threads."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class EventLoop:
    """An asyncio loop in a thread of its own."""

    _shared: "EventLoop | None" = None
    _making = threading.Lock()

    def __init__(self) -> None:
        self._process = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="cutlayer loop", daemon=True).start()

    @classmethod
    def shared(cls) -> "EventLoop":
        """The loop of this process; gRPC wants all its objects on one."""
        with cls._making:
            if cls._shared is None or cls._shared._process != os.getpid():
                cls._shared = cls()
            return cls._shared

    def start(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Let the loop do something; wait for the result, or do not."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Let the loop do something, and wait for it.

        Raises:
            TimeoutError: it was not done in time; it has been cancelled.
        """
        future = self.start(work)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise
