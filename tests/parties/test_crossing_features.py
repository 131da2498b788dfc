"""Under ``frozen`` features cross in place of gradients: a copy of them needs consent."""

import threading

import pytest
import torch

from cutlayer.errors import ConfigurationError, PeerEndedError
from cutlayer.parties import LabelParty, NonLabelParty
from cutlayer.protections import NoNoise
from cutlayer.protocol import in_memory_pair
from cutlayer.rng import SeededNoise
from tests.parties.conftest import QUICK, adam, make_bottom, make_top, tables, terms

COLUMNS = 3  # of the non-label party in `tables`, independent


def meet(width, *, allowed=False, pair=None):
    """Both parties of a frozen run: what each gave or raised, and what each was told."""
    label_table, other_table = pair or tables()
    here, there = in_memory_pair()
    agreed = terms(mode="one round", cut_width=width)
    told = {"label": [], "other": []}
    label = LabelParty(
        label_table,
        agreed,
        NoNoise(),
        make_top,
        adam,
        noise=SeededNoise(9),
        deadlines=QUICK,
        tell=told["label"].append,
    )
    other = NonLabelParty(
        other_table,
        agreed,
        make_bottom,
        adam,
        deadlines=QUICK,
        allow_feature_copy=allowed,
        tell=told["other"].append,
    )
    gave = {}

    def play(name, party, transport):
        try:
            gave[name] = party.run(transport)
        except Exception as error:  # noqa: BLE001
            gave[name] = error

    thread = threading.Thread(target=play, args=("other", other, there))
    thread.start()
    play("label", label, here)
    thread.join()
    return gave, told


@pytest.mark.parametrize("width", [COLUMNS, COLUMNS + 1, 32])
def test_a_copy_is_refused_at_the_non_label_party_and_the_other_learns_why(width):
    gave, _ = meet(width)
    assert isinstance(gave["other"], ConfigurationError)
    said = str(gave["other"])
    assert said.startswith("non-label party: cut_width: frozen would send an invertible copy")
    assert f"cut_width is {width}, and the 3 columns of the training records have rank 3" in said
    assert "Set cut_width below 3 at both parties" in said
    assert "allow_feature_copy = true at the non-label party" in said
    assert isinstance(gave["label"], PeerEndedError)
    assert "would send a copy of all its features. Agree on a smaller" in str(gave["label"])


@pytest.mark.parametrize("width", [COLUMNS, COLUMNS + 2])
def test_an_allowed_copy_is_a_warning_at_both(width):
    gave, told = meet(width, allowed=True)
    assert gave["label"].test.auc > 0.5
    (mine,) = [line for line in told["other"] if "WARNING" in line]
    assert "all features leave, as allow_feature_copy says" in mine
    assert "They carry 100.0% of the variance; 3 of the columns" in mine
    warned, arrived = [line for line in told["label"] if "components" in line]
    assert warned.startswith("label party: WARNING: the non-label party has set allow_feature_copy")
    assert arrived.startswith("label party: 3 principal components of the non-label party's")
    assert ("fewer than cut_width: they are a copy of all of them" in arrived) == (width > COLUMNS)
    assert gave["label"].crossed == arrived.removeprefix("label party: ")


def test_fewer_components_cross_with_a_word_on_what_they_carry():
    gave, told = meet(2)
    assert gave["label"].test.auc > 0.5
    (line,) = told["other"]
    assert line.startswith("non-label party: 2 principal components cross, of 3 columns of rank 3.")
    assert not [line for line in told["label"] if "WARNING" in line]


def nearly_twice(noise):
    """Both tables, with f2 as f0 and noise of this share of its deviation."""
    label_table, other_table = tables()
    f0 = other_table.features["f0"].to_numpy()
    drawn = torch.randn(len(f0), generator=torch.Generator().manual_seed(3)).numpy()
    columns = other_table.features.with_columns(f2=f0 + noise * f0.std() * drawn)
    return label_table, type(other_table)("non-label party", other_table.ids, columns)


@pytest.mark.parametrize("noise", [1e-1, 1e-3, 1e-4])
def test_a_column_that_is_nearly_another_is_a_copy_below_the_rank(noise):
    # Standardised, f0 and f2 lose (1 - r) / 2 each with the third direction: less than .01.
    gave, _ = meet(2, pair=nearly_twice(noise))
    said = str(gave["other"])
    assert isinstance(gave["other"], ConfigurationError)
    assert "cut_width: frozen would send nearly a copy of all features: from 2 components" in said
    assert "each of the 3 columns that differ between training records can be computed" in said
    assert "Set cut_width below 2 at both parties" in said
    assert isinstance(gave["label"], PeerEndedError)
    gave, told = meet(2, pair=nearly_twice(noise), allowed=True)
    assert gave["label"].test.auc > 0.5
    assert "WARNING: all features leave, as allow_feature_copy says" in told["other"][0]
    gave, _ = meet(1, pair=nearly_twice(noise))
    assert gave["label"].test.auc > 0.5


def test_components_that_carry_nearly_everything_are_a_warning():
    label_table, almost = nearly_twice(0.23)
    here, there = in_memory_pair()
    told, agreed = [], terms(mode="one round", cut_width=2)
    label = LabelParty(
        label_table, agreed, NoNoise(), make_top, adam, noise=SeededNoise(9), deadlines=QUICK
    )
    other = NonLabelParty(almost, agreed, make_bottom, adam, deadlines=QUICK, tell=told.append)
    thread = threading.Thread(target=other.run, args=(there,))
    thread.start()
    label.run(here)
    thread.join()
    (line,) = told
    # f0 and f2 correlate to r = 1 / sqrt(1 + .23 ** 2) = .975. The third direction has 1 - r of a
    # variance of 3, less than .01; f0 and f2 have half of it each, more than .01 of their 1.
    assert "WARNING: nearly all of the features leave. 2 principal components" in line
    assert "1 of the columns can be computed from them" in line


def test_consent_means_nothing_in_the_loop():
    label_table, other_table = tables()
    here, there = in_memory_pair()
    told = []
    label = LabelParty(
        label_table,
        terms(epochs=1),
        NoNoise(),
        make_top,
        adam,
        noise=SeededNoise(9),
        deadlines=QUICK,
        tell=told.append,
    )
    other = NonLabelParty(
        other_table, terms(epochs=1), make_bottom, adam, deadlines=QUICK, allow_feature_copy=True
    )
    thread = threading.Thread(target=other.run, args=(there,))
    thread.start()
    assert label.run(here).crossed == ""
    thread.join()
    assert told == []
