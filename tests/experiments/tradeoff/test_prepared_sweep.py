"""A sweep on data that were prepared from a raw click log."""

import numpy as np
import pytest

from cutlayer.errors import ConfigurationError
from cutlayer.experiments.tradeoff.configuration import checked
from cutlayer.experiments.tradeoff.records import codes_of
from cutlayer.experiments.tradeoff.training import do_run
from cutlayer.preparation import TableOptions, criteo, prepare_table


@pytest.fixture(scope="module")
def click_log(tmp_path_factory):
    """600 rows in Criteo's format, some cells empty."""
    folder = tmp_path_factory.mktemp("clicks")
    draw = np.random.Generator(np.random.PCG64(0))
    lines = []
    for _ in range(600):
        numbers = ["" if draw.random() < 0.1 else str(draw.integers(-1, 50)) for _ in range(13)]
        codes = [f"{draw.integers(0, 6):08x}" for _ in range(26)]
        clicked = draw.random() < (0.5 if codes[0][-1] in "012" else 0.1)
        lines.append("\t".join([str(int(clicked)), *numbers, *codes]))
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    raw = criteo(folder / "train.txt", ["I*"])
    prepare_table(raw, folder / "criteo", TableOptions(min_count=2), lambda *_, **__: None)
    return folder / "criteo"


def test_the_papers_network_trains_on_codes(click_log, tmp_path):
    settings = {"prepared": str(click_log), "model": "paper", "batch_size": 128, "epochs": 1}
    configuration = checked({**settings, "protections": ["marvell:s=4"], "paper_protocol": True})
    codes = codes_of(configuration)
    assert len(codes["non-label party"]) == 26
    assert codes["label party"] == ()
    result = do_run(configuration, configuration.runs[0], tmp_path)
    assert result.train_records + result.test_records == 600
    assert {attack.layer for attack in result.attacks} == {"cut", "first"}
    assert configuration.published == "criteo"


def test_a_model_that_cannot_take_codes_is_refused(click_log):
    with pytest.raises(ConfigurationError, match="mlp does not take"):
        checked({"prepared": str(click_log), "protections": ["no_noise"]})
