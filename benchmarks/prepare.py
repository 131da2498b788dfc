"""Time and peak memory of `cutlayer prepare criteo`: `prepare.py --rows 1000000 4000000 16000000`.

Writes drawn files in Criteo's format (missing cells, negative numbers, 24 columns of up to 100,000
values with a long tail, two columns of values that hardly repeat) and prepares each in a process of
its own, so that nothing but the preparation counts. A million rows are 250 MB of text.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

CHUNK_ROWS = 250_000
NUMBERS, CATEGORIES = 13, 26
VOCABULARY = 100_000
FOUR_DIGITS = pl.Series([f"{value:04x}" for value in range(1 << 16)])


def hexadecimal(values: np.ndarray) -> pl.Series:
    """Eight hexadecimal digits for each uint32."""
    high, low = FOUR_DIGITS.gather(values >> 16), FOUR_DIGITS.gather(values & 0xFFFF)
    return pl.DataFrame({"h": high, "l": low}).select(pl.concat_str("h", "l")).to_series()


def with_gaps(column: pl.Series, share: float, draw: np.random.Generator) -> pl.Series:
    """The column with some cells empty."""
    return column.set(pl.Series(draw.random(len(column)) < share), None)


def drawn(first: int, rows: int, seed: int = 0) -> pl.DataFrame:
    """Rows ``first .. first + rows - 1`` of the file."""
    draw = np.random.default_rng((seed, first))
    columns = {"label": pl.Series((draw.random(rows) < 0.25).astype(np.int8))}
    for place in range(NUMBERS):
        values = np.floor(draw.exponential(10.0 ** (place % 4), rows)) - (place == 1) * 2
        columns[f"I{place + 1}"] = with_gaps(pl.Series(values.astype(np.int64)), 0.2, draw)
    words = np.random.default_rng(seed).integers(0, 1 << 32, VOCABULARY, dtype=np.uint32)
    for place in range(CATEGORIES):
        if place in (2, 11):
            values = draw.integers(0, 1 << 32, rows, dtype=np.uint32)
        else:
            size = (10, 1_000, VOCABULARY)[place % 3]
            values = words[(size * draw.random(rows) ** 3).astype(np.int64)]
        gaps = 0.4 if place % 5 == 4 else 0.0
        columns[f"C{place + 1}"] = with_gaps(hexadecimal(values), gaps, draw)
    return pl.DataFrame(columns)


def write(path: Path, rows: int, seed: int = 0) -> None:
    """The file, chunk by chunk."""
    with path.open("wb") as file:
        for first in range(0, rows, CHUNK_ROWS):
            chunk = drawn(first, min(CHUNK_ROWS, rows - first), seed)
            chunk.write_csv(file, include_header=False, separator="\t")


def peak_mib() -> float:
    """The most memory that this process ever held (Linux)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def measure(path: Path, out: Path, vocabulary: str) -> dict[str, float]:
    """Prepare the file, and measure."""
    from cutlayer.preparation import TableOptions, criteo, prepare_table

    before = peak_mib()
    start = time.perf_counter()
    made = prepare_table(criteo(path), out, TableOptions(vocabulary=vocabulary))
    seconds = time.perf_counter() - start
    return {
        "rows": made.rows,
        "seconds": seconds,
        "rows_per_second": made.rows / seconds,
        "baseline_mib": before,
        "peak_mib": peak_mib(),
        "text_mib": path.stat().st_size / 2**20,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, nargs="+", default=[200_000])
    options.add_argument("--vocabulary", choices=["exact", "hashed"], default="exact")
    options.add_argument("--json", action="store_true", help="one JSON object a line")
    options.add_argument("--only", type=Path, nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.only is not None:
        print(json.dumps(measure(*chosen.only, chosen.vocabulary)))
        return
    for rows in chosen.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            write(path, rows)
            command = [sys.executable, __file__, "--vocabulary", chosen.vocabulary]
            command += ["--only", str(path), str(Path(folder) / "out")]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if chosen.json:
            print(told.strip(), flush=True)
            continue
        found = json.loads(told)
        print(
            f"{found['rows']:,} rows ({found['text_mib']:,.0f} MiB of text): "
            f"{found['seconds']:.1f} s, {found['rows_per_second']:,.0f} rows/s, peak memory "
            f"{found['peak_mib']:,.0f} MiB, of which {found['baseline_mib']:,.0f} MiB before.",
            flush=True,
        )


if __name__ == "__main__":
    main()
