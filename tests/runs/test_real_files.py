"""Real files, unmodified, by two commands each, against logistic regression on the same split."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from cutlayer.data import Encoder
from cutlayer.parties.agreement import agree_on
from cutlayer.runs.configuration import (
    LabelConfiguration,
    NonLabelConfiguration,
    read_configuration,
)

SHARED = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Case:
    label_file: str
    other_file: str
    label: str
    """Keys of the label party beyond file, run, protection."""
    other: str
    rest: dict = field(default_factory=dict)


BOTH_BANK = 'delimiter = ";"\nid = "(row number)"\n'
BOTH_DIABETES = 'id = "encounter_id"\ngroup = "patient_nbr"\nmissing = ["?"]\n'
BOTH_ADULT = 'id = "(row number)"\nheader = false\nmissing = ["?"]\n'
CASES = {
    "default_credit": Case(
        "fate-vertical/default_credit_hetero_guest.csv.gz",
        "fate-vertical/default_credit_hetero_host.csv.gz",
        'id = "id"\nlabel = "y"\n',
        'id = "id"\n',
    ),
    "give_credit": Case(
        "fate-vertical/give_credit_30k_guest.csv.gz",
        "fate-vertical/give_credit_30k_host.csv.gz",
        'id = "id"\nlabel = "y"\n',
        'id = "id"\n',
    ),
    "bank": Case(
        "uci-bank-marketing/bank-additional-full.csv.gz",
        "uci-bank-marketing/bank-additional-full.csv.gz",
        BOTH_BANK + 'label = "y"\n'
        'keep = ["age", "job", "marital", "education", "default", "housing", "loan"]\n',
        BOTH_BANK
        + 'keep = ["contact", "month", "day_of_week", "campaign", "pdays", "previous", "poutcome", '
        '"emp*", "cons*", "euribor3m", "nr*"]\n',
    ),
    "diabetes": Case(
        "uci-diabetes-readmission/diabetic_data.csv.gz",
        "uci-diabetes-readmission/diabetic_data.csv.gz",
        BOTH_DIABETES + 'label = "readmitted"\npositive = "<30"\nnegative = "rest"\n'
        'keep = ["race", "gender", "age", "admission*", "discharge*", "payer_code"]\n',
        BOTH_DIABETES
        + 'drop = ["readmitted", "race", "gender", "age", "admission*", "discharge*", '
        '"payer_code"]\n',
    ),
    "adult": Case(
        "uci-adult/adult.csv.gz",
        "uci-adult/adult.csv.gz",
        BOTH_ADULT
        + 'label = "c15"\npositive = ">50K"\nkeep = ["c2", "c5", "c7", "c11", "c12", "c13"]\n',
        BOTH_ADULT + 'drop = ["c15", "c2", "c5", "c7", "c11", "c12", "c13"]\n',
    ),
}


def write_configurations(case, folder, port, protection):
    shared = f'run = "real"\nprotection = "{protection}"\naddress = "127.0.0.1:{port}"\n'
    shared += "insecure_loopback = true\n"
    label = f'{shared}file = "{SHARED / case.label_file}"\naudit_every = 20\n{case.label}'
    other = f'{shared}file = "{SHARED / case.other_file}"\n{case.other}'
    for name, text in (("label", label), ("other", other)):
        assert len(text.splitlines()) < 15  # a configuration is short
        (folder / f"{name}.toml").write_text(text)


def two_commands(folder):
    """Each organisation's command, side by side."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "cutlayer", command, f"{name}.toml"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, name in (("non-label-party", "other"), ("label-party", "label"))
    ]
    said = [process.communicate(timeout=280) for process in processes]
    for process, (out, err) in zip(processes, said, strict=True):
        assert process.returncode == 0, (out, err)


def logistic_regression(folder):
    """Test AUC of pooled logistic regression on the same split, and its standard error."""
    label = read_configuration(LabelConfiguration, folder / "label.toml")
    other = read_configuration(NonLabelConfiguration, folder / "other.toml")
    own = label.table_file().read("label party").table
    features = other.table_file().read("non-label party").table
    groups = None if own.groups is None else dict(zip(own.ids, own.groups, strict=True))
    shared = sorted(set(own.ids) & set(features.ids))
    agreement = agree_on(shared, label.terms(), groups)
    train_ids = [agreement.ids[i] for i in agreement.train.tolist()]
    columns = []
    for table in (own, features):
        ordered = table.ordered_by(agreement.ids)
        columns.append(Encoder.fit(ordered.ordered_by(train_ids)).encode(ordered).numpy())
    pooled, y = np.hstack(columns), own.ordered_by(agreement.ids).labels.numpy()
    model = LogisticRegression(C=0.1, max_iter=500).fit(pooled[agreement.train], y[agreement.train])
    test = agreement.test.numpy()
    auc = roc_auc_score(y[test], model.decision_function(pooled[test]))
    return auc, hanley_mcneil(auc, y[test]), agreement


def hanley_mcneil(auc, labels):
    """Standard error of an AUC, by Hanley and McNeil (1982)."""
    n1, n0 = int(labels.sum()), int((1 - labels).sum())
    q1, q2 = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    variance = auc * (1 - auc) + (n1 - 1) * (q1 - auc**2) + (n0 - 1) * (q2 - auc**2)
    return (variance / (n1 * n0)) ** 0.5


@pytest.mark.parametrize("name", CASES)
def test_no_noise_is_not_below_logistic_regression(name, tmp_path, unused_port):
    case = CASES[name]
    if not (SHARED / case.label_file).exists():
        pytest.skip(f"{case.label_file} is not on this machine")
    write_configurations(case, tmp_path, unused_port, "no_noise")
    two_commands(tmp_path)
    findings = json.loads((tmp_path / "runs/real/label-party/findings.json").read_text())
    auc, error, agreement = logistic_regression(tmp_path)
    reached = findings["rows"][0]["test_auc"]
    assert findings["messages_every"] == 20
    print(f"{name}: cutlayer {reached:.4f}, logistic regression {auc:.4f} +- {error:.4f}")
    assert reached >= auc - 2 * error
    predictions = pl.read_csv(
        tmp_path / "runs/real/label-party/predictions.csv", schema_overrides={"id": pl.String}
    )
    assert len(predictions) == len(agreement.held_out)
