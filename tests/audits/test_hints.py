import pytest
import torch
from safetensors.torch import save_file

from cutlayer.audits import Hint, pick_hint, read_hints, write_hints
from cutlayer.errors import DataError

RECORDS = torch.tensor([10, 11, 12, 13, 14])
LABELS = torch.tensor([1, 0, 1, 1, 0])
CLEAN = torch.arange(10.0).reshape(5, 2) + 1.0


def pick(seed: int, **changes):
    arguments = {"records": RECORDS, "labels": LABELS, "clean_gradient": CLEAN, **changes}
    return pick_hint(**arguments, generator=torch.Generator().manual_seed(seed))


def test_a_hint_is_a_positive_of_the_batch_with_its_own_clean_gradient():
    hint = pick(0)
    row = RECORDS.tolist().index(hint.record)
    assert LABELS[row] == 1
    assert torch.equal(hint.gradient, CLEAN[row])


def test_the_same_seed_picks_the_same_hint():
    picked = [pick(seed).record for seed in range(9)]
    assert picked == [pick(seed).record for seed in range(9)]
    assert len(set(picked)) > 1


def test_each_positive_has_the_same_chance():
    # 3,000 draws of three: a count has mean 1,000 and deviation sqrt(3000 / 3 * 2 / 3) = 25.8.
    generator = torch.Generator().manual_seed(1)
    picked = [pick_hint(RECORDS, LABELS, CLEAN, generator=generator).record for _ in range(3000)]
    for record in (10, 12, 13):
        assert abs(picked.count(record) - 1000) < 5 * 25.8


def test_a_canary_or_a_zero_gradient_is_never_picked():
    canaries = torch.zeros(20, dtype=torch.bool)
    canaries[12] = True
    clean = CLEAN.clone()
    clean[0] = 0.0
    assert {pick(seed, canaries=canaries, clean_gradient=clean).record for seed in range(20)} == {
        13
    }


def test_without_an_eligible_positive_there_is_no_hint():
    assert pick(0, labels=torch.zeros(5)) is None
    assert pick(0, canaries=torch.ones(20, dtype=torch.bool)) is None
    assert pick(0, clean_gradient=torch.zeros(5, 2)) is None


def test_the_generator_moves_alike_whatever_the_labels():
    states = []
    for labels in (LABELS, torch.zeros(5), torch.ones(5)):
        generator = torch.Generator().manual_seed(3)
        pick_hint(RECORDS, labels, CLEAN, generator=generator)
        states.append(generator.get_state())
    assert all(torch.equal(state, states[0]) for state in states)


def test_a_hint_does_not_follow_later_changes_of_the_batch():
    clean = CLEAN.clone()
    hint = pick(0, clean_gradient=clean)
    clean.zero_()
    assert bool(hint.gradient.all())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clean_gradient": CLEAN * float("nan")}, "clean_gradient must be finite"),
        ({"records": RECORDS[:3]}, r"records must have shape \(5,\)"),
        ({"labels": LABELS + 1}, "labels must hold only 0 and 1"),
    ],
)
def test_a_batch_of_no_use_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        pick(0, **changes)


def test_hints_come_back_bit_for_bit(tmp_path):
    hints = {4: Hint(7, torch.tensor([1e-30, 2.0])), 0: Hint(3, torch.tensor([0.5, -0.0]))}
    write_hints(hints, tmp_path / "hints")
    found = read_hints(tmp_path / "hints")
    assert {step: hint.record for step, hint in found.items()} == {4: 7, 0: 3}
    assert all(torch.equal(found[step].gradient, hints[step].gradient) for step in hints)


def test_no_hints_come_back_as_none(tmp_path):
    write_hints({}, tmp_path / "hints")
    assert read_hints(tmp_path / "hints") == {}


def test_hints_of_two_widths_are_refused(tmp_path):
    with pytest.raises(ValueError, match="one width and dtype"):
        write_hints({0: Hint(0, torch.ones(2)), 1: Hint(0, torch.ones(3))}, tmp_path / "hints")


@pytest.mark.parametrize(
    ("record", "gradient", "message"),
    [
        (-1, torch.ones(2), "record must be a whole number"),
        (0, torch.ones(2, 2), "gradient must have shape"),
        (0, torch.ones(0), "gradient must have shape"),
        (0, torch.ones(2).long(), "gradient must be floating"),
        (0, torch.tensor([float("inf")]), "gradient must be finite"),
    ],
)
def test_a_hint_of_no_use_is_refused(record, gradient, message):
    with pytest.raises(ValueError, match=message):
        Hint(record, gradient)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"steps": torch.tensor([0, 1])}, "no valid hints"),
        ({"gradients": torch.tensor([[float("nan")]])}, "no valid hints: gradient must be finite"),
        ({"labels": torch.zeros(2)}, "must hold gradients, records, steps"),
    ],
)
def test_a_file_that_contradicts_itself_is_named(tmp_path, tensors, message):
    sound = {
        "steps": torch.tensor([0]),
        "records": torch.tensor([0]),
        "gradients": torch.ones(1, 1),
    }
    save_file({**sound, **tensors}, tmp_path / "hints", {"cutlayer": "audit.hints/1"})
    with pytest.raises(DataError, match=message):
        read_hints(tmp_path / "hints")


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"There is no .*hints. Give the hints"):
        read_hints(tmp_path / "hints")
    (tmp_path / "hints").write_bytes(b"not tensors")
    with pytest.raises(DataError, match="hints is damaged"):
        read_hints(tmp_path / "hints")
