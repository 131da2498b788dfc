"""How much memory an audit gives to arrays that somebody else wrote, where nobody says."""

import os
import resource
from contextlib import suppress
from pathlib import Path

_COPIES = 2
"""An audit holds the arrays as they were read, and sorted by step."""
_LARGEST_GROWTH = 64
"""Gradients hardly shrink when they are packed; a file that grows more was made to."""
_ALWAYS_BYTES = 256 << 20
_CONTROL_GROUP = Path("/sys/fs/cgroup/memory.max")


def default_limit(path: Path, workers: int) -> int:
    """Most bytes of arrays that are read from a transcript by default.

    Args:
        path: the file, or the folder of files.
        workers: how many processes hold the arrays.

    Returns:
        What all processes can hold in this machine's memory; but no more than a sound file of
        this size unpacks to.
    """
    files = path.iterdir() if path.is_dir() else [path]
    stored = sum(file.stat().st_size for file in files if file.is_file())
    room = memory_bytes() // (_COPIES * workers)
    return min(room, max(_ALWAYS_BYTES, _LARGEST_GROWTH * stored))


def memory_bytes() -> int:
    """What this process may use at most: the machine's memory, or less where that is limited."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space)
    with suppress(OSError, ValueError):  # no limit is the word "max"
        limits.append(int(_CONTROL_GROUP.read_text(encoding="ascii")))
    return min(limits)
