"""Two parties compare a text: equal or not, and nothing else."""

import pytest

from cutlayer.alignment.ristretto import InvalidPointError

pytest.importorskip("rbcl", reason="needs cutlayer[psi]")

from cutlayer.alignment.private_comparison import PrivateComparison

ROLES = ["label party", "non-label party"]


@pytest.mark.parametrize("prover", ROLES)
def test_equal_texts_give_equal_proofs_and_others_do_not(prover):
    here = PrivateComparison(b"u1 u2", "run")
    for text, run, equal in (
        (b"u1 u2", "run", True),
        (b"u1 u3", "run", False),
        (b"", "run", False),
        (b"u1 u2", "other run", False),
        (b"nu1 u2", "ru", False),
    ):
        there = PrivateComparison(text, run)
        same = here.proof(prover, there.element) == there.proof(prover, here.element)
        assert same is equal, (text, run)


def test_what_crosses_is_new_in_every_comparison_and_a_proof_is_of_one_role():
    elements = {PrivateComparison(b"text", "run").element for _ in range(50)}
    assert len(elements) == 50
    here, there = PrivateComparison(b"text", "run"), PrivateComparison(b"text", "run")
    proofs = {here.proof(role, there.element) for role in ROLES}
    assert len(proofs) == 2
    # Whoever returns the element that it got does not thereby have the proof.
    assert here.proof(ROLES[0], here.element) != here.proof(ROLES[0], there.element)


def test_a_dictionary_can_be_tried_with_one_guess_only_the_one_that_was_sent():
    """The other side has 100 possible texts; what it sees lets it test the text that it used."""
    texts = [f"u{number}".encode() for number in range(100)]
    for used in (7, 42):
        honest, guess = PrivateComparison(texts[42], "run"), PrivateComparison(texts[used], "run")
        shown = honest.proof(ROLES[1], guess.element)
        tried = [PrivateComparison(text, "run").proof(ROLES[1], honest.element) for text in texts]
        assert shown not in tried
        assert (guess.proof(ROLES[1], honest.element) == shown) is (used == 42)


@pytest.mark.parametrize(
    "element", [bytes(32), bytes([255] * 32), b"", bytes(31), bytes([1]) + bytes(31)]
)
def test_what_is_no_element_or_the_neutral_one_is_refused(element):
    """RFC 9496, A.3: negative, non-canonical and non-square encodings; 0 is the neutral element."""
    with pytest.raises(InvalidPointError):
        PrivateComparison(b"text", "run").proof(ROLES[0], element)
