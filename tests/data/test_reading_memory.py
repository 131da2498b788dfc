"""How much memory reading takes, measured from outside, in a process of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "read_table.py"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' VmHWM")
@pytest.mark.parametrize("form", ["csv", "gzip", "parquet"])
def test_memory_is_that_of_the_table_and_a_fixed_part(form):
    """A row is 76 bytes of features, 16 of id and 8 of label, so 2 million are 191 MiB.

    Allowed are twice that and 350 MiB for blocks, hashes and the giveaway check; the text alone has
    184 MiB, and a reader that holds all cells as Python objects needs 2,000 MiB.
    """
    command = [sys.executable, str(BENCHMARK), "--rows", "2000000", "--form", form]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak, before = re.search(r"peak memory ([\d,]+) MiB, of which ([\d,]+) MiB", told).groups()
    used = int(peak.replace(",", "")) - int(before.replace(",", ""))
    assert used < 2 * 191 + 350, told
