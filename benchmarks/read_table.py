"""How much memory and time it takes to read a party's file: `read_table.py --rows 10000000`.

Writes a drawn table (a 12-letter id, 10 numbers, 2 categories, at the label party a label) into a
temporary folder, chunk by chunk, then reads it in a process of its own, so that nothing but the
reading counts. The baseline is what that process needs before it reads: Python, torch, polars.
"""

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

CHUNK_ROWS = 250_000
NUMBERS, VOCABULARIES = 10, (50, 1_000)


def drawn(first: int, rows: int, seed: int) -> pl.DataFrame:
    """Rows ``first .. first + rows - 1`` of the table."""
    draw = np.random.default_rng((seed, first))
    numbers = draw.standard_normal((rows, NUMBERS)).round(4)
    numbers[:, -2:] = (numbers[:, -2:] * 1000).round()  # two columns of whole numbers
    columns = {"id": [f"u{row:011d}" for row in range(first, first + rows)]}
    columns |= {f"n{j}": numbers[:, j] for j in range(NUMBERS)}
    for j, words in enumerate(VOCABULARIES):
        columns[f"c{j}"] = np.char.add("v", draw.integers(0, words, rows).astype(str))
    columns["y"] = draw.integers(0, 2, rows)
    return pl.DataFrame(columns)


def write(path: Path, rows: int, form: str) -> None:
    """The table as CSV, gzip or Parquet; memory holds one chunk of a text."""
    firsts = range(0, rows, CHUNK_ROWS)
    chunks = (drawn(first, min(CHUNK_ROWS, rows - first), seed=0) for first in firsts)
    if form == "parquet":
        pl.concat(list(chunks)).write_parquet(path)
        return
    with path.open("wb") as plain:
        for number, chunk in enumerate(chunks):
            chunk.write_csv(plain, include_header=number == 0)
    if form == "gzip":
        packed = path.with_suffix(".gz")
        with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
            shutil.copyfileobj(source, target)
        packed.replace(path)


def peak_mib() -> float:
    """The most memory that this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a new process begins with what its parent held
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def read(path: Path) -> dict[str, float]:
    """Read the file as the label party, and measure."""
    from cutlayer.data import TableFile

    before = peak_mib()
    start = time.perf_counter()
    reading = TableFile(path, "id", label_column="y").read("label party")
    seconds = time.perf_counter() - start
    table = reading.table
    return {
        "rows": len(table),
        "columns": table.features.width,
        "seconds": seconds,
        "baseline_mib": before,
        "peak_mib": peak_mib(),
        "features_mib": table.features.estimated_size("mb"),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--form", choices=["csv", "gzip", "parquet"], default="csv")
    options.add_argument("--only-read", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.only_read is not None:
        print(json.dumps(read(chosen.only_read)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        write(path, chosen.rows, chosen.form)
        size = path.stat().st_size / 2**20
        command = [sys.executable, __file__, "--only-read", str(path)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(
        f"{found['rows']:,} rows, {found['columns']} features, {chosen.form} of {size:,.0f} MiB: "
        f"{found['seconds']:.1f} s ({found['rows'] / found['seconds']:,.0f} rows/s), "
        f"peak memory {found['peak_mib']:,.0f} MiB, of which {found['baseline_mib']:,.0f} MiB "
        f"before reading; the features take {found['features_mib']:,.0f} MiB."
    )


if __name__ == "__main__":
    main()
