"""Fuzz the decoder with atheris: `python fuzz/decoder.py -runs=10000000 -max_len=400`.

Needs `pip install cutlayer[fuzz]`, and is started from the root of the repository.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["cutlayer.protocol", "json", "fuzz"]):
    from fuzz.target import one_input

if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
