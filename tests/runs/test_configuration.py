import re
from pathlib import Path

import pytest
import torch

from cutlayer.data.tables.record_blocks import ENCODINGS
from cutlayer.errors import ConfigurationError
from cutlayer.experiments.plan import Plan
from cutlayer.experiments.tradeoff.configuration import TradeoffConfiguration
from cutlayer.parties import InputShape
from cutlayer.protocol import Role
from cutlayer.runs.configuration import (
    LabelConfiguration,
    NonLabelConfiguration,
    read_configuration,
    role_of,
)
from cutlayer.runs.model_factory import build_bottom, build_top
from cutlayer.runs.party_runs import make_optimizer
from cutlayer.runs.template import template

SHORTEST = """
run = "credit"
file = "guest.csv"
id = "id"
label = "y"
protection = "residual:max_leak_auc=0.7"
"""


@pytest.fixture
def write(tmp_path):
    def writer(text):
        path = tmp_path / "label.toml"
        path.write_text(text)
        return path

    return writer


def read(path, **overrides):
    return read_configuration(LabelConfiguration, path, overrides)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_that_is_read_can_be_named(write, tmp_path, encoding):
    (tmp_path / "guest.csv").write_bytes("id,y,x\na,1,Köln\nb,0,Bonn\n".encode(encoding))
    configuration = read(write(SHORTEST), encoding=encoding, file=str(tmp_path / "guest.csv"))
    read_table = configuration.table_file().read("label party").table
    assert read_table.features["x"].to_list() == ["Köln", "Bonn"]


def test_an_encoding_that_is_not_read_is_answered_with_those_that_are(write):
    with pytest.raises(ConfigurationError, match=r"encoding: .*'latin-1' or 'windows-1252'"):
        read(write(SHORTEST), encoding="utf-16")


def test_five_lines_are_enough_and_plan_the_whole_run(write):
    configuration = read(write(SHORTEST))
    assert configuration.applied.planned_releases == configuration.epochs == 20
    assert configuration.applied.guarantee(20).leak_auc == pytest.approx(0.7)
    assert configuration.run_folder == Path("runs/credit/label-party")
    assert configuration.terms().grouped is False
    assert configuration.terms().micro_batches == 1
    assert read(write(SHORTEST), micro_batches="4").terms().micro_batches == 4


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("epochs", "5", 5),
        ("micro_batches", "4", 4),
        ("learning_rate", "1e-3", 1e-3),
        ("protection", "no_noise", "no_noise"),
        ("drop", "duration", ("duration",)),
        ("drop", "a,b", ("a", "b")),
        ("drop", '["a", "b"]', ("a", "b")),
        ("header", "false", False),
        ("hidden", "32,16", (32, 16)),
        ("delimiter", ";", ";"),
        ("positive", "<30", "<30"),
        ("positive", "1", 1),
        ("run", "2024", "2024"),
        ("file", "other.csv", Path("other.csv")),
    ],
)
def test_every_key_can_be_overridden_from_the_command_line(write, key, text, value):
    path = write(SHORTEST)
    if key in ("header",):
        assert getattr(read(path, header=text), key) == value
    else:
        assert getattr(read(path, **{key: text}), key) == value


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epoch": "5"}, ["--epoch (beside", "unknown key 'epoch'", "Did you mean epochs"]),
        ({"colour": "red"}, ["unknown key 'colour'", "Known: run, file"]),
        ({"noise_seed": "1"}, ["unknown key 'noise_seed'"]),
        ({"compress": "true"}, ["unknown key 'compress'"]),
        ({"compression": "gzip"}, ["unknown key 'compression'"]),
        ({"transport": "http"}, ["transport", "grpc", "tls"]),
        ({"epochs": "0"}, ["epochs", "greater than or equal to 1", "0"]),
        ({"epochs": "many"}, ["epochs", "many"]),
        ({"epochs": "100000000000"}, ["epochs", "less than or equal to 1000000"]),
        ({"epochs": "1e20"}, ["epochs", "1e+20"]),
        ({"micro_batches": "true"}, ["micro_batches", "a number", "True"]),
        ({"hidden": "64,100000000000"}, ["hidden.1", "less than or equal to 65536"]),
        ({"hidden": "64,0"}, ["hidden.1", "greater than or equal to 1"]),
        ({"learning_rate": "inf"}, ["learning_rate", "less than or equal to 1000000"]),
        ({"learning_rate": "nan"}, ["learning_rate", "nan"]),
        ({"learning_rate": "1e300"}, ["learning_rate", "less than or equal to 1000000"]),
        ({"weight_decay": "inf"}, ["weight_decay", "less than or equal to 1000000"]),
        ({"device": "meta"}, ["device", "meta"]),
        ({"protection": "residual:sigma=1e-300"}, ["sigma", "1e-12", "1e-300"]),
        ({"protection": "marvel:s=4"}, ["'marvel'", "Did you mean marvell?", "no_noise", "frozen"]),
        ({"protection": "frosen"}, ["Did you mean frozen?"]),
        ({"protection": "residual:max_leak=0.7"}, ["'max_leak'", "Did you mean max_leak_auc?"]),
        ({"protection": "residual:max_leak_auc"}, ["max_leak_auc has no value"]),
        ({"protection": "marvell"}, ["exactly one of s"]),
        ({"protection": "marvell:s=4,statistics=batch"}, ["simulation", "statistics"]),
        ({"address": "7700"}, ["address", "HOST:PORT"]),
        ({"address": "https://label.example:7700"}, ["address", "HOST:PORT", "scheme"]),
        ({"metrics": "http://127.0.0.1:9400"}, ["metrics must be HOST:PORT", "scheme"]),
        ({"test_share": "0.95"}, ["validation_share + test_share"]),
        ({"device": "abacus"}, ["device", "abacus"]),
        ({"micro_batches": "0"}, ["micro_batches", "greater than or equal to 1", "0"]),
        (
            {"batch_size": "6", "micro_batches": "4"},
            ["micro_batches", "at most 3", "got 4", "batch_size to 8", "at both parties"],
        ),
        ({"accumulate": "2"}, ["unknown key 'accumulate'"]),
        ({"delimiter": "ab"}, ["delimiter"]),
        ({"run": "a/../b"}, ["run"]),
        ({"run": "."}, ["run", "more than dots"]),
        ({"run": ".."}, ["run", "more than dots"]),
        ({"id": "y"}, ["must differ"]),
    ],
    ids=str,
)
def test_a_wrong_value_names_party_file_key_rule_and_fix(write, change, told):
    path = write(SHORTEST)
    with pytest.raises(ConfigurationError) as caught:
        read(path, **change)
    message = str(caught.value)
    for word in ["label party", "label.toml", *told]:
        assert word in message, message


def test_without_a_protection_nothing_starts(write):
    text = "\n".join(line for line in SHORTEST.splitlines() if "protection" not in line)
    with pytest.raises(ConfigurationError, match='protection = "no_noise"'):
        read(write(text))


def test_a_wrong_key_of_the_file_is_not_blamed_on_the_command_line(write):
    with pytest.raises(ConfigurationError, match=r"label\.toml: unknown key 'epoch'") as caught:
        read(write(SHORTEST + "epoch = 5\n"), epochs="3")
    assert "--" not in str(caught.value)


def test_the_other_partys_configuration_is_recognised(write):
    with pytest.raises(ConfigurationError, match="this is the label party's configuration"):
        read_configuration(NonLabelConfiguration, write(SHORTEST))
    with pytest.raises(ConfigurationError, match="`cutlayer non-label-party` starts"):
        read(write(SHORTEST.replace('label = "y"\n', "")))


def test_missing_and_broken_files_are_named(tmp_path, write):
    with pytest.raises(ConfigurationError, match="cutlayer init"):
        read(tmp_path / "absent.toml")
    with pytest.raises(ConfigurationError, match="no TOML"):
        read(write("run = "))
    with pytest.raises(ConfigurationError, match="no TOML"):
        read(tmp_path)


def test_the_label_column_tells_whose_configuration_it_is(write):
    assert role_of(write(SHORTEST)) is Role.LABEL
    assert role_of(write(SHORTEST.replace('label = "y"\n', ""))) is Role.NON_LABEL


def test_port_0_is_for_the_party_that_listens(write):
    settings = {"address": "127.0.0.1:0"}
    with pytest.raises(ConfigurationError, match=r"non-label party: .*address: .*has port 0"):
        read_configuration(
            NonLabelConfiguration, write(SHORTEST.replace('label = "y"\n', "")), settings
        )
    read_configuration(LabelConfiguration, write(SHORTEST), settings)


@pytest.mark.parametrize("role", list(Role))
def test_the_template_is_short_valid_and_rigorous(role, write):
    text = template(role, "records.csv")
    assert len(text.splitlines()) < 15
    kind = LabelConfiguration if role is Role.LABEL else NonLabelConfiguration
    configuration = read_configuration(kind, write(text))
    assert configuration.applied.guarantee(configuration.epochs).kind == "rigorous"


OWN_SHAPE = InputShape((7,), ((4, 7),))


@pytest.mark.parametrize("model", ["mlp", "wide_deep"])
def test_built_in_halves_fit_each_other(write, model):
    configuration = read(write(SHORTEST), model=model)
    bottom = build_bottom(configuration, OWN_SHAPE)
    activation = bottom(torch.randn(3, 7))
    assert activation.shape == (3, configuration.cut_width)
    assert build_top(configuration, configuration.cut_width, OWN_SHAPE)(
        activation, torch.randn(3, 7)
    ).shape == (3,)


def test_initial_weights_differ_at_every_start(write):
    configuration = read(write(SHORTEST))
    first, second = (build_bottom(configuration, OWN_SHAPE) for _ in range(2))
    assert not torch.equal(first[0].weight, second[0].weight)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("resnet", "mlp, wide_deep, or package.module:Class"),
        ("no.such.module:Net", "cannot be imported"),
        ("torch.nn:Nothing", "cannot be imported"),
        ("torch.nn:Linear", "cannot be built"),
        ("builtins:dict", "not a torch.nn.Module"),
    ],
)
def test_wrong_models_are_explained(write, model, told):
    configuration = read(write(SHORTEST), model=model)
    with pytest.raises(ConfigurationError, match=told):
        build_bottom(configuration, OWN_SHAPE)


def test_metrics_stay_on_this_machine_unless_that_is_asked_for(write):
    path = write(SHORTEST)
    assert read(path, metrics="127.0.0.1:9400").metrics == "127.0.0.1:9400"
    with pytest.raises(ConfigurationError, match=r"metrics: 0\.0\.0\.0:9400 can be reached"):
        read(path, metrics="0.0.0.0:9400")
    assert read(path, metrics="0.0.0.0:9400", metrics_open="true").metrics_open
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        read(path, metrics="9400")


def test_the_page_lists_every_key_and_its_default():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|", page, re.MULTILINE))
    listed = {key: shown for key, shown in listed.items() if key in LabelConfiguration.model_fields}
    assert set(listed) == set(LabelConfiguration.model_fields)
    keys = ("epochs", "batch_size", "cut_width", "wait", "learning_rate", "weight_decay", "threads")
    for key in keys:
        assert listed[key].strip(" `") == str(LabelConfiguration.model_fields[key].default)


@pytest.mark.parametrize(
    ("key", "value"), [("stop_above", "0.7"), ("warn_above", "0.7"), ("track", "tensorboard:logs")]
)
def test_a_key_that_needs_the_live_audit_is_refused_without_one(tmp_path, key, value):
    path = tmp_path / "run.toml"
    path.write_text('run = "r"\nfile = "f.csv"\nid = "id"\nlabel = "y"\nprotection = "no_noise"\n')
    read_configuration(LabelConfiguration, path, {key: value})
    with pytest.raises(ConfigurationError, match=f"{key}: it needs .* Set live_every to 1"):
        read_configuration(LabelConfiguration, path, {key: value, "live_every": "0"})


def test_weight_decay_goes_through_adam_and_is_one_default_everywhere(write):
    """Decoupled, a decay of this size regularises nothing in a training of this length."""
    configuration = read(write(SHORTEST))
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    weight.grad = torch.zeros(1)
    make_optimizer(configuration)([weight]).step()
    # Adam's first step is the learning rate times the sign of gradient + decay * weight; decoupled
    # it would be the learning rate times the decay.
    assert weight.item() == pytest.approx(1 - configuration.learning_rate, abs=1e-6)
    defaults = {
        model.model_fields["weight_decay"].default
        for model in (LabelConfiguration, NonLabelConfiguration, Plan, TradeoffConfiguration)
    }
    assert defaults == {0.001}


def test_a_key_of_the_other_party_is_said_to_be_its_own(write):
    path = write(SHORTEST + "allow_feature_copy = true\n")
    with pytest.raises(ConfigurationError, match="is the non-label party's alone"):
        read(path)
    path = write(SHORTEST.replace('label = "y"\n', "audit_every = 5\n"))
    with pytest.raises(ConfigurationError, match="'audit_every' is the label party's alone"):
        read_configuration(NonLabelConfiguration, path)
