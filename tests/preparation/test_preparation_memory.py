"""How memory and time grow with the rows, measured from outside, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "prepare.py"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' VmHWM")
def test_memory_is_flat_and_time_grows_with_the_rows():
    """Four times the rows: a reader that keeps a row's 40 cells in any form needs 1 GiB more.

    What may grow is the vocabulary of frequent values, at most 100,000 for each of 8 columns in
    both files, and spilled counts as files, not memory. Time is printed (see it with ``-rP``) and
    not judged.
    """
    command = [sys.executable, str(BENCHMARK), "--json", "--rows", "1000000", "4000000"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    small, large = (json.loads(line) for line in told.splitlines())
    grown = large["peak_mib"] / small["peak_mib"]
    print(f"peak {grown:.2f} times, seconds {large['seconds'] / small['seconds']:.2f} times")
    assert large["rows"] == 4 * small["rows"]
    assert grown < 1.25, told
