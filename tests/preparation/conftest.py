import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "prepare.py"


@pytest.fixture(scope="session")
def benchmark_module():
    """The generator of files in Criteo's format."""
    spec = importlib.util.spec_from_file_location("prepare_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
