"""The group against the test vectors of RFC 9496, appendix A."""

import hashlib
import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from cutlayer.alignment import ristretto
from cutlayer.alignment.ristretto import InvalidPointError, multiplied, point_of, random_scalar
from cutlayer.errors import ConfigurationError

rbcl = pytest.importorskip("rbcl", reason="needs cutlayer[psi]")

VECTORS = json.loads(
    (Path(__file__).parents[1] / "reference/ristretto255_rfc9496.json").read_text()
)
MULTIPLES = VECTORS["multiples of the generator, from 0"]
INVALID = VECTORS["invalid encodings"]
HASHED = VECTORS["points of SHA-512 of a sentence"]
REDUCED = VECTORS["point of inputs that are reduced modulo the prime"]
ORDER = 2**252 + 27742317777372353535851937790883648493


def rows(*encodings):
    data = b"".join(bytes.fromhex(text) for text in encodings)
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, 32)


@pytest.mark.parametrize("factor", range(1, 16))
def test_multiples_of_the_generator(factor):
    product = multiplied(factor.to_bytes(32, "little"), rows(MULTIPLES[1]))
    assert product.tobytes().hex() == MULTIPLES[factor]


@pytest.mark.parametrize("sentence", HASHED)
def test_texts_to_points(sentence):
    assert point_of(sentence.encode()).hex() == HASHED[sentence]


@pytest.mark.parametrize("number", range(4))
def test_the_one_way_map_reduces_its_input(number, monkeypatch):
    class Chosen:
        @staticmethod
        def digest():
            return bytes.fromhex(REDUCED["inputs"][number])

    monkeypatch.setattr(hashlib, "sha512", lambda text: Chosen)
    assert point_of(b"").hex() == REDUCED["point"]


@pytest.mark.parametrize("encoding", [*INVALID, MULTIPLES[0]])
def test_invalid_encodings_and_the_neutral_element_are_refused_by_row(encoding):
    with pytest.raises(InvalidPointError, match="row 2") as caught:
        multiplied(random_scalar(), rows(MULTIPLES[1], MULTIPLES[2], encoding, MULTIPLES[3]))
    assert caught.value.row == 2


def test_secrets_commute_and_are_fresh_and_below_the_order():
    one, other = random_scalar(), random_scalar()
    assert one != other
    assert 0 < int.from_bytes(one, "little") < ORDER
    points = np.frombuffer(point_of(b"a") + point_of(b"b"), dtype=np.uint8).reshape(2, 32)
    assert (multiplied(one, multiplied(other, points))).tolist() == (
        multiplied(other, multiplied(one, points))
    ).tolist()


def test_no_points_give_no_points():
    assert multiplied(random_scalar(), rows()).shape == (0, 32)


def test_without_libsodium_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rbcl", None)
    ristretto._sodium.cache_clear()
    with pytest.raises(ConfigurationError, match=r"cutlayer\[psi\]"):
        random_scalar()
    ristretto._sodium.cache_clear()


def test_other_threads_run_while_points_are_multiplied():
    points = np.tile(rows(MULTIPLES[1]), (4000, 1))
    done, turns = threading.Event(), 0

    def multiply():
        multiplied(random_scalar(), points)
        done.set()

    thread = threading.Thread(target=multiply)
    thread.start()
    while not done.is_set():
        turns += 1
    thread.join()
    # Were the interpreter's lock held throughout, this loop would get a handful of turns.
    assert turns > 1000
