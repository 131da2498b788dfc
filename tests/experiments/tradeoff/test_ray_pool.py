import sys

import pytest

from cutlayer.cli import main
from cutlayer.experiments.tradeoff.configuration import checked
from cutlayer.experiments.tradeoff.ray_pool import LOCAL, run_on_ray
from cutlayer.experiments.tradeoff.result import state_of
from cutlayer.experiments.tradeoff.sweep import run_sweep

SETTINGS = {"data": "breast-cancer", "epochs": 1, "batch_size": 64, "audit_every": 4, "seeds": [0]}


def test_without_ray_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    config = tmp_path / "tiny.toml"
    config.write_text('data = "breast-cancer"\nprotections = ["no_noise"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["cutlayer", "tradeoff", str(config), "--ray", "local"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "cutlayer[ray]" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


@pytest.mark.slow
def test_runs_on_ray_end_with_a_result(tmp_path):
    pytest.importorskip("ray")
    configuration = checked({**SETTINGS, "protections": ["no_noise", "max_norm"]})

    def pool(*arguments):
        run_on_ray(*arguments, address=LOCAL)

    run_sweep(configuration, tmp_path / "sweep", lambda: None, pool=pool)
    assert {state_of(tmp_path / "sweep", run) for run in configuration.runs} == {"done"}
