"""Process limits: whether the system lets a process open and map as much as a command needs.

With too few descriptors, or too little address space, the libraries below crash without a word that
an operator could use, or wait for ever for a thread that could not be made. So it is looked at
before they are loaded.
"""

import os
import resource

from cutlayer import descriptors
from cutlayer.errors import ConfigurationError
from cutlayer.operation.checkup import Check, ok, warning

_GIB = 1 << 30
_LEAST_SPACE = 5 * _GIB // 2
_SPACE_OF_A_CORE = 16 << 20
"""Measured without data: 2.3 GiB on two cores; 2.0 and 2.5 with 2 and 64 threads in one library."""
_FEW = 1_024


def prepare_process() -> None:
    """Raise the limit of descriptors, set a few aside, and refuse limits that no command survives.

    Raises:
        ConfigurationError: there is too little; the message says how to change that.
    """
    descriptors.raise_limit()
    files = descriptors.limit()
    if files < descriptors.LEAST:
        raise ConfigurationError(
            f"cutlayer: this process may have {files} files and connections open at once, and "
            f"needs at least {descriptors.LEAST}. Raise the limit: `ulimit -n 65536`, "
            "LimitNOFILE=65536 in a systemd unit, or --ulimit nofile=65536 for a container."
        )
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    least = _LEAST_SPACE + _SPACE_OF_A_CORE * (os.cpu_count() or 1)
    if space not in (resource.RLIM_INFINITY, -1) and space < least:
        raise ConfigurationError(
            f"cutlayer: this process may map {space / _GIB:.1f} GiB of memory (ulimit -v), and its "
            f"libraries alone need {least / _GIB:.1f} GiB of addresses, most of which no memory "
            "stands behind. Take that limit away (`ulimit -v unlimited`); limit the memory itself "
            "by MemoryMax in a systemd unit, or --memory for a container."
        )
    descriptors.set_aside()


def check_descriptors() -> Check:
    """Whether many strangers at the port leave this process descriptors to work with."""
    files = descriptors.limit()
    found = (
        f"{files:,} files and connections at once, of which strangers get at most "
        f"{descriptors.room_for_strangers():,}"
    )
    if files < _FEW:
        return warning(
            "descriptors",
            f"{found}: while strangers connect by the hundred, a peer may not get in",
            "Raise the limit: `ulimit -n 65536`, or LimitNOFILE=65536 in the unit file.",
        )
    return ok("descriptors", found)
