"""Protections as texts: what is refused, and with which words."""

import pytest

from cutlayer.errors import ConfigurationError, UnknownNameError
from cutlayer.protections import PROTECTIONS, Isotropic, MaxNorm, Residual, parse_protection


def parsed(text):
    return parse_protection(text, PROTECTIONS, planned_releases=3)


def test_settings_are_numbers_or_words():
    assert parsed("isotropic:t=2") == Isotropic(t=2)
    assert parsed(" isotropic : t = 2.5e-1 ") == Isotropic(t=0.25)
    assert parsed("max_norm:") == MaxNorm()
    assert parsed("residual:max_leak_auc=0.7") == Residual(max_leak_auc=0.7, releases=3)
    assert parsed("marvell:s=4,variances=shared").variances == "shared"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("residual:sigma=abc", "sigma must be a number, got 'abc'"),
        ("residual:sigma=True", "sigma must be a number, got 'True'"),
        ("residual:sigma=1_000", "sigma must be a number, got '1_000'"),
        ("residual:sigma=٣", "sigma must be a number, got '٣'"),
        ("residual:sigma=0x10", "sigma must be a number, got '0x10'"),
        ("residual:sigma==1", "sigma must be a number, got '=1'"),
        ("residual:sigma=1;s=2", "sigma must be a number, got '1;s=2'"),
        ("residual:sigma=nan", "sigma must lie strictly between .* got nan"),
        ("residual:sigma=-1", "sigma must lie strictly between .* got -1"),
        ("residual:sigma=1e400", "sigma must lie strictly between .* got inf"),
        ("residual:sigma=" + "9" * 400, "sigma must be below 1e308"),
        ("residual:max_leak_auc=abc", "max_leak_auc must be a number, got 'abc'"),
        ("residual:max_leak_auc=0.5", "max_leak_auc must lie strictly between 0.5 and 1.0"),
        ("residual:max_leak_auc=0.7,releases=1.5", "releases must be a whole number"),
        ("residual", "give exactly one of sigma and max_leak_auc"),
        ("residual:", "give exactly one of sigma and max_leak_auc"),
        ("residual:sigma", "sigma has no value; write sigma=VALUE"),
        ("residual:sigma=", "sigma has no value; write sigma=VALUE"),
        ("residual:sigma=1,sigma=2", "sigma is given twice"),
        ("residual:unknown=1", "there is no setting 'unknown'.*Settings of residual: sigma"),
        ("residual:sigma=[1,2]", "a list of values is for the grid of `cutlayer tradeoff`"),
        ("marvell:s=abc", "s must be a number, got 'abc'"),
        ("marvell:s=-1", "s must be a finite number above 0, got -1"),
        ("marvell:max_leak_auc=x", "max_leak_auc must be a number, got 'x'"),
        ("marvell:max_sum_kl=x", "max_sum_kl must be a number, got 'x'"),
        ("marvell:min_error=x", "min_error must be a number, got 'x'"),
        ("marvell:s=4,statistics=1", "statistics must be averaged or batch, got 1"),
        ("marvell:_memory=1", "there is no setting '_memory'"),
        ("isotropic:t=-1", "t must be a finite number of at least 0, got -1"),
        ("isotropic:t=nan", "t must be a finite number of at least 0, got nan"),
        ("isotropic:t=abc", "t must be a number, got 'abc'"),
        ("no_noise:s=1", "there is no setting 's'.*Settings of no_noise: none"),
    ],
)
def test_a_wrong_text_is_one_sentence_with_setting_rule_and_value(text, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        parsed(text)
    assert "\n" not in str(caught.value)
    assert "protection 'residual" in str(caught.value) or not text.startswith("residual")


@pytest.mark.parametrize("text", ["", " ", ":sigma=1", "RESIDUAL:sigma=1", "residual sigma=1"])
def test_an_unknown_name_is_answered_with_the_known_ones(text):
    with pytest.raises(UnknownNameError, match="Known: no_noise, isotropic"):
        parsed(text)
