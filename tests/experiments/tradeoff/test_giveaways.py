"""A column of either half that tells the label is named before the sweep and in its result."""

import pytest
import torch

from cutlayer.experiments.tradeoff.configuration import checked
from cutlayer.experiments.tradeoff.page import warnings_of
from cutlayer.experiments.tradeoff.records import giveaways_of, notices_of
from cutlayer.experiments.tradeoff.result import run_folder
from cutlayer.experiments.tradeoff.summary import summarise
from cutlayer.experiments.tradeoff.training import run_and_keep
from cutlayer.preparation import TableColumns, TableOptions, prepare_table, table

COUNT = 600
SWEEP = {
    "epochs": 1,
    "batch_size": 64,
    "hidden": [4],
    "cut_width": 4,
    "seeds": [0],
    "audit_every": 8,
    "protections": ["no_noise"],
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """5 % positive; the non-label party has a time that only positives have; rows in two orders."""
    folder = tmp_path_factory.mktemp("logs")
    label, other, whole = ["id,a,y"], ["id,app,since"], ["id,a,app,since,y"]
    for n in range(COUNT):
        y, a, app = int(n * 37 % 20 == 3), n * 13 % 101 / 10, (3, 9, 12)[n * n % 3]
        since = 1_500_000_000 + 7919 * n if y else ""
        label.append(f"k{n},{a},{y}")
        other.insert(1, f"k{n},{app},{since}")
        whole.append(f"k{n},{a},{app},{since},{y}")
    other.insert(1, "z,3,5")  # nobody else has it
    for name, lines in (("label", label), ("other", other), ("whole", whole)):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


def of_tables(folder, **other):
    return checked(
        {
            **SWEEP,
            "label_party": {"file": str(folder / "label.csv"), "id": "id", "label": "y"},
            "non_label_party": {"file": str(folder / "other.csv"), "id": "id", **other},
        }
    )


@pytest.mark.parametrize("kind", [{}, {"categorical": ["since"]}])
def test_a_column_of_the_other_half_is_found(logs, kind):
    (line,) = giveaways_of(of_tables(logs, **kind))
    assert line.startswith("non-label party, column 'since': gives the label away: it is filled in")
    assert "100.0% of the positive rows and in 0.0% of the negative rows" in line
    assert giveaways_of(of_tables(logs, drop=["since"])) == ()


def test_the_result_names_it(logs, tmp_path):
    configuration = of_tables(logs)
    (run,) = configuration.runs
    torch.set_num_threads(1)
    run_and_keep(configuration, run, run_folder(tmp_path, run))
    summary = summarise(configuration, tmp_path)
    assert summary.points[0].results[0].giveaways == giveaways_of(configuration)
    assert [line for line in warnings_of(summary) if "gives the label away" in line] == list(
        giveaways_of(configuration)
    )


def test_prepared_data_are_looked_at_and_keep_their_notices(logs, tmp_path):
    raw = table(logs / "whole.csv", TableColumns("y", "id", label_party=("a",)))
    prepare_table(raw, tmp_path / "made", TableOptions())
    configuration = checked({**SWEEP, "model": "wide_deep", "prepared": str(tmp_path / "made")})
    (line,) = giveaways_of(configuration)
    assert line.startswith("non-label party, column 'since': gives the label away: it orders the")
    assert notices_of(configuration) == raw.notices
    assert any("'since': gives the label away" in notice for notice in raw.notices)


def test_bundled_data_are_not_looked_at():
    assert giveaways_of(checked({**SWEEP, "data": "breast-cancer"})) == ()
