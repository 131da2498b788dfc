"""Configurations as editors save them: byte order marks, other encodings, no text at all."""

import codecs
from pathlib import Path

import pytest

from cutlayer.errors import ConfigurationError
from cutlayer.experiments.tradeoff.configuration import read_tradeoff
from cutlayer.runs.configuration import NonLabelConfiguration, read_configuration, role_of
from cutlayer.runs.toml_file import read_toml

PARTY = 'run = "bom"\nfile = "guest.csv"\nid = "kén"\nprotection = "no_noise"\n'
SWEEP = 'data = "breast-cancer"\nprotections = ["no_noise"]\n'


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("marks", [1, 2])
def test_byte_order_marks_are_skipped(tmp_path, marks):
    path = saved(tmp_path / "a.toml", codecs.BOM_UTF8 * marks + PARTY.encode())
    assert read_toml(path)["id"] == "kén"
    assert read_configuration(NonLabelConfiguration, path).run == "bom"
    assert role_of(path).value == "non-label party"
    sweep = saved(tmp_path / "b.toml", codecs.BOM_UTF8 + SWEEP.encode())
    assert read_tradeoff(sweep).data == "breast-cancer"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (PARTY.encode("utf-16"), "must be UTF-8 text, but is UTF-16"),
        (codecs.BOM_UTF16_BE + PARTY.encode("utf-16-be"), "but is UTF-16"),
        (PARTY.encode("utf-16-le"), "but is UTF-16"),
        (PARTY.encode("utf-32"), "but is UTF-32"),
        (PARTY.encode("windows-1252"), "line 3 holds the byte 0xE9"),
        (b"run = ", "is no TOML file"),
    ],
    ids=range(6),
)
def test_what_is_no_utf_8_is_named_at_every_reader(tmp_path, data, words):
    path = saved(tmp_path / "other.toml", data)
    for read in (
        lambda: read_configuration(NonLabelConfiguration, path),
        lambda: role_of(path),
        lambda: read_tradeoff(path),
    ):
        with pytest.raises(ConfigurationError, match=words) as caught:
            read()
        assert str(path) in str(caught.value)


def test_a_folder_in_place_of_the_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="no TOML file that can be read"):
        read_configuration(NonLabelConfiguration, tmp_path)
