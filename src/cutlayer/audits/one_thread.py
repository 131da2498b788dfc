"""One thread: an attack works on small batches, where more threads get in each other's way."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and the numerical libraries below it use one thread each, and restore them."""
    limited: AbstractContextManager[object] = nullcontext()
    with suppress(ModuleNotFoundError):  # it comes with the extra "run"; without it, torch alone
        from threadpoolctl import threadpool_limits

        limited = threadpool_limits(limits=1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with limited:
            yield
    finally:
        torch.set_num_threads(before)
