import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from cutlayer.errors import DataError
from cutlayer.transcript import Release, Transcript, TranscriptWriter

IDS = ["anna", "бо", "", "x,y\n"]


def release(step: int, *, epoch: int = 0, seed: int | None = None) -> Release:
    generator = torch.Generator().manual_seed(step if seed is None else seed)
    return Release(
        step,
        epoch,
        torch.randperm(4, generator=generator)[:3],
        torch.randn(3, 2, generator=generator),
        torch.randn(3, 2, generator=generator).to(torch.bfloat16),
    )


def assert_same(left: Release, right: Release) -> None:
    assert (left.step, left.epoch) == (right.step, right.epoch)
    for name in ("records", "activation", "gradient"):
        assert getattr(left, name).dtype == getattr(right, name).dtype
        assert torch.equal(getattr(left, name), getattr(right, name))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A transcript of steps 0 to 2."""
    writer = TranscriptWriter(tmp_path / "transcript", IDS)
    for step in range(3):
        writer.write(release(step))
    return writer.folder


def path_of(folder: Path, step: int) -> Path:
    return folder / f"release-{step:010d}.safetensors"


def test_what_is_written_is_read_bit_for_bit_in_the_order_of_steps(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS)
    for step in (100, 7, 23):
        writer.write(release(step, epoch=step // 10))
    transcript = Transcript(tmp_path)
    assert transcript.ids == tuple(IDS)
    assert transcript.steps == (7, 23, 100)
    assert len(transcript) == 3
    for found, step in zip(transcript, (7, 23, 100), strict=True):
        assert_same(found, release(step, epoch=step // 10))


def test_every_third_step_is_kept(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS, every=3)
    assert [writer.write(release(step)) for step in range(7)] == [
        True, False, False, True, False, False, True,
    ]  # fmt: skip
    assert Transcript(tmp_path).steps == (0, 3, 6)


def test_a_file_holds_what_the_peer_saw_and_nothing_else(kept):
    with safe_open(path_of(kept, 0), framework="pt") as file:
        assert set(file.keys()) == {"activation", "gradient", "records"}
        assert set(file.metadata()) == {"step", "epoch", "cutlayer"}


def test_reading_is_lazy(kept):
    path_of(kept, 1).write_bytes(b"gone")
    releases = iter(Transcript(kept))
    assert next(releases).step == 0
    with pytest.raises(DataError, match="release-0000000001"):
        next(releases)


def test_an_interrupted_write_leaves_the_earlier_steps_and_can_be_taken_up(kept, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)  # after the bytes, before the file has its name
        with pytest.raises(KeyboardInterrupt):
            TranscriptWriter(kept, IDS).write(release(3))
    assert [path.name for path in kept.glob("*.partial")] == [
        "release-0000000003.safetensors.partial"
    ]
    assert [found.step for found in Transcript(kept)] == [0, 1, 2]

    again = TranscriptWriter(kept, IDS)
    assert not list(kept.glob("*.partial"))
    again.write(release(3))
    assert Transcript(kept).steps == (0, 1, 2, 3)


def test_a_resend_of_the_same_bytes_is_accepted_and_other_bytes_are_not(kept):
    writer = TranscriptWriter(kept, IDS)
    assert writer.write(release(2))
    with pytest.raises(DataError, match="another release of step 2"):
        writer.write(release(2, seed=99))
    assert_same(Transcript(kept).release(2), release(2))


def test_nan_is_kept_as_it_was_sent(tmp_path):
    sent = Release(0, 0, torch.tensor([1]), torch.zeros(1, 1), torch.tensor([[float("nan")]]))
    writer = TranscriptWriter(tmp_path, IDS)
    writer.write(sent)
    assert writer.write(sent)
    assert bool(Transcript(tmp_path).release(0).gradient.isnan().all())


def test_a_folder_of_another_run_is_refused(kept):
    with pytest.raises(DataError, match=r"a run with other ids. Choose an empty folder"):
        TranscriptWriter(kept, ["anna"])


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (torch.tensor([0, 1, 4]), "records must lie in 0 to 3, got 0 to 4"),
        (torch.tensor([0, 1, -1]), "records must lie in 0 to 3, got -1 to 1"),
        (torch.tensor([0, 1, 1]), "at most once"),
        (torch.tensor([0, 1, 2], dtype=torch.int32), "records must be int64"),
    ],
)
def test_records_that_are_no_positions_are_refused(tmp_path, records, message):
    wrong = Release(0, 0, records, torch.zeros(3, 2), torch.zeros(3, 2))
    with pytest.raises(ValueError, match=message):
        TranscriptWriter(tmp_path, IDS).write(wrong)
    assert not path_of(tmp_path, 0).exists()


@pytest.mark.parametrize(("ids", "every"), [(IDS, 0), ([], 1)])
def test_a_writer_without_ids_or_without_steps_is_refused(tmp_path, ids, every):
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        TranscriptWriter(tmp_path, ids, every)


@pytest.mark.parametrize("length", [0, 5, 40, -7])
def test_a_truncated_release_is_named_with_what_to_do(kept, length):
    path = path_of(kept, 1)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DataError, match=r"release-0000000001.*damaged.*Remove release-0000000001"):
        Transcript(kept).release(1)


def rewritten(path: Path, *, tensors=None, metadata=None) -> None:
    """Replace parts of a kept file."""
    with safe_open(path, framework="pt") as file:
        old_metadata = file.metadata()
        old_tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    save_file({**old_tensors, **(tensors or {})}, path, {**old_metadata, **(metadata or {})})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"cutlayer": "model/1"}}, "must be of kind 'transcript.release/1'"),
        ({"metadata": {"step": "2"}}, "holds step 2, not 1"),
        ({"metadata": {"epoch": "late"}}, "no valid release: invalid literal"),
        ({"tensors": {"labels": torch.zeros(3)}}, "must hold activation, gradient, records"),
        ({"tensors": {"records": torch.tensor([0, 1, 9])}}, "records must lie in 0 to 3"),
        ({"tensors": {"records": torch.tensor([0, 1])}}, r"records must have shape \(3,\)"),
        ({"tensors": {"gradient": torch.zeros(3)}}, "gradient must have shape"),
    ],
)
def test_a_release_that_contradicts_itself_is_named(kept, change, message):
    rewritten(path_of(kept, 1), **change)
    with pytest.raises(DataError, match=message) as caught:
        Transcript(kept).release(1)
    assert str(path_of(kept, 1)) in str(caught.value)
    assert "record the run again" in str(caught.value)


def test_a_step_that_was_not_kept_is_named(kept):
    with pytest.raises(DataError, match=r"There is no .*release-0000000009"):
        Transcript(kept).release(9)


def test_a_stray_file_name_is_named(kept):
    (kept / "release-last.safetensors").touch()
    with pytest.raises(DataError, match=r"release-last.safetensors is no name of a release"):
        Transcript(kept)


def test_a_folder_without_a_transcript_is_named(tmp_path):
    with pytest.raises(DataError, match=r"There is no .*ids.safetensors. Give the folder"):
        Transcript(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"lengths": torch.tensor([4, 1])}, "lengths do not fill the text"),
        ({"lengths": torch.tensor([20, -7])}, "lengths do not fill the text"),
        ({"text": torch.full((12,), 255).byte()}, "no UTF-8 text"),
    ],
)
def test_a_damaged_list_of_ids_is_named(kept, tensors, message):
    rewritten(kept / "ids.safetensors", tensors=tensors)
    with pytest.raises(DataError, match=message):
        Transcript(kept)
