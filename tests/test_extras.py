"""What works with `pip install cutlayer` alone, and what is said where an extra is missing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cutlayer.errors import MissingExtraError
from cutlayer.extras import EXTRAS, explained, needing

PROJECT = Path(__file__).parents[1]
DISTRIBUTIONS = {  # a distribution's name where it is not that of its module
    "PIL": "pillow",
    "grpc": "grpcio",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
    "sklearn": "scikit-learn",
}
WITHOUT_EXTRAS = """
from importlib.machinery import PathFinder
installed = PathFinder.find_spec
PathFinder.find_spec = staticmethod(lambda name, path=None, target=None: (
    None if name.partition(".")[0] in {absent} else installed(name, path, target)))
"""
OWN_LOOP = """
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as loss_of
from cutlayer import (ATTACKS, Isotropic, Marvell, MaxNorm, NoNoise, Release, Residual, audit,
                      leak_auc, protect, protected_loss)

features, labels = torch.randn(64, 5), torch.arange(64) % 2
bottom, top = torch.nn.Linear(5, 4), torch.nn.Linear(4, 1)
releases = []
for step in range(3):
    sent = bottom(features)
    sent.retain_grad()
    logit = top(protect(sent, labels, NoNoise())).squeeze(1)
    loss_of(logit, labels.float()).backward()
    releases.append(Release(step, step, torch.arange(64), sent.detach(), sent.grad))
for protection in (Isotropic(t=1.0), Marvell(s=4.0), MaxNorm()):
    protect(bottom(features), labels, protection).sum().backward()
protected_loss(top(bottom(features)).squeeze(1), labels, Residual(sigma=2.0)).backward()
few = {name: ATTACKS[name] for name in ("norm", "direct_sign", "tail_energy")}
found = audit(releases, labels, attacks=few)
print(f"{found.worst.leak_auc:.3f}")
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    absent = {module for modules in EXTRAS.values() for module in modules}
    program = WITHOUT_EXTRAS.format(absent=absent) + code
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False
    )


def test_a_training_loop_of_ones_own_needs_no_extra():
    done = python(OWN_LOOP)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 1.0  # without protection the sign of the gradient is the label


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from cutlayer import LabelParty", "run"),
        ("from pathlib import Path; from cutlayer import Transcript; Transcript(Path('x'))", "run"),
        ("from cutlayer.data import TableFile", "run"),
        (
            "import sys; sys.argv = ['cutlayer', '--help']; from cutlayer.cli import main; main()",
            "run",
        ),
    ],
)
def test_a_missing_extra_is_one_message_with_the_pip_line(code, extra):
    done = python(code)
    assert done.returncode != 0
    assert f"pip install 'cutlayer[{extra}]'" in done.stderr.splitlines()[-1]


def test_the_command_says_so_in_one_line_with_status_2():
    done = python("from cutlayer.cli import main; main()")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_only_modules_of_an_extra_are_explained():
    ours = ModuleNotFoundError("No module named 'polars.exceptions'", name="polars.exceptions")
    assert isinstance(explained(ours), MissingExtraError)
    assert "polars" in str(explained(ours))
    other = ModuleNotFoundError("No module named 'elsewhere'", name="elsewhere")
    assert explained(other) is other
    with pytest.raises(ModuleNotFoundError, match="elsewhere"), needing():
        raise other


def test_pyproject_installs_every_module_that_an_extra_promises():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for extra, modules in EXTRAS.items():
        required = " ".join(project["optional-dependencies"][extra]).lower()
        for module in modules:
            assert DISTRIBUTIONS.get(module, module) in required, (extra, module)
    core = {line.partition(">")[0] for line in project["dependencies"]}
    assert core == {"cryptography", "numpy", "scipy", "torch", "typing-extensions"}
