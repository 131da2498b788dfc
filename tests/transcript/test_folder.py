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
    """A transcript of steps 0 to 2, each in a chunk of its own."""
    for step in range(3):
        writer = TranscriptWriter(tmp_path / "transcript", IDS)
        writer.write(release(step))
        writer.flush()
    return writer.folder


def path_of(folder: Path, chunk: int) -> Path:
    return folder / f"chunk-{chunk:06d}.safetensors"


def test_what_is_written_is_read_bit_for_bit_in_the_order_of_sending(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS)
    for step in (7, 23, 100):
        writer.write(release(step, epoch=step // 10))
    writer.flush()
    transcript = Transcript(tmp_path)
    assert transcript.ids == tuple(IDS)
    assert transcript.steps == (7, 23, 100)
    assert len(transcript) == 3
    for found, step in zip(transcript, (7, 23, 100), strict=True):
        assert_same(found, release(step, epoch=step // 10))
        assert_same(transcript.release(step), found)


def test_an_epoch_that_was_sent_again_is_there_twice(tmp_path):
    # Interrupted in epoch 1 and gone on with: the peer saw both versions of steps 2 and 3.
    for steps, seed in (((0, 1, 2, 3), 0), ((2, 3, 4), 50)):
        writer = TranscriptWriter(tmp_path, IDS)
        for step in steps:
            writer.write(release(step, epoch=step // 2, seed=seed + step))
        writer.flush()
    transcript = Transcript(tmp_path)
    assert transcript.steps == (0, 1, 2, 3, 2, 3, 4)
    assert_same(list(transcript)[4], release(2, epoch=1, seed=52))


def test_the_first_epochs_are_what_had_been_seen_after_them(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS)
    for step in range(6):
        writer.write(release(step, epoch=step // 2))
    writer.flush()
    early = Transcript(tmp_path).first_epochs(2)
    assert early.steps == (0, 1, 2, 3)
    assert [found.step for found in early] == [0, 1, 2, 3]


def test_an_epoch_that_ends_is_on_disk(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS)
    writer.write(release(0))
    assert Transcript(tmp_path).steps == ()
    writer.write(release(1, epoch=1))
    assert Transcript(tmp_path).steps == (0,)


def test_a_full_chunk_is_written_within_an_epoch(tmp_path, monkeypatch):
    # A row takes 8 (record) + 8 (activation) + 4 (gradient) bytes; a release has three.
    monkeypatch.setattr("cutlayer.transcript.folder.CHUNK_BYTES", 120)
    monkeypatch.setattr("cutlayer.transcript.folder.SMALLEST_CHUNK_BYTES", 120)
    writer = TranscriptWriter(tmp_path, IDS)
    for step in range(5):
        writer.write(release(step))
    assert Transcript(tmp_path).steps == (0, 1, 2, 3)


def test_a_small_chunk_is_written_again_with_what_follows(tmp_path, monkeypatch):
    # Three rows of 20 bytes a release: the third makes the chunk large enough to stand.
    monkeypatch.setattr("cutlayer.transcript.folder.SMALLEST_CHUNK_BYTES", 180)
    writer = TranscriptWriter(tmp_path, IDS)
    chunks = []
    for step in range(7):  # a checkpoint after each step, of which every second ends an epoch
        writer.write(release(step, epoch=step // 2))
        writer.flush()
        assert Transcript(tmp_path).steps == tuple(range(step + 1))
        chunks.append(len(list(tmp_path.glob("chunk-*"))))
    assert chunks == [1, 1, 1, 2, 2, 2, 3]
    for found in Transcript(tmp_path):
        assert_same(found, release(found.step, epoch=found.step // 2))


def test_a_flush_without_news_writes_nothing(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS)
    writer.write(release(0))
    writer.flush()
    path_of(tmp_path, 0).unlink()
    writer.flush()
    assert not path_of(tmp_path, 0).exists()


def test_every_third_step_is_kept(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS, every=3)
    assert [writer.write(release(step)) for step in range(7)] == [
        True, False, False, True, False, False, True,
    ]  # fmt: skip
    writer.flush()
    assert Transcript(tmp_path).steps == (0, 3, 6)
    assert [writer.holds(step) for step in (3, 4, 6, 9)] == [True, False, True, False]


def test_a_file_holds_what_the_peer_saw_and_nothing_else(kept):
    with safe_open(path_of(kept, 0), framework="pt") as file:
        assert set(file.keys()) == {
            "activation", "gradient", "records", "steps", "epochs", "rows",
        }  # fmt: skip
        assert set(file.metadata()) == {"steps", "epochs", "cutlayer"}


def test_reading_is_lazy(kept):
    rewritten(path_of(kept, 1), tensors={"records": torch.tensor([0, 1])})
    releases = iter(Transcript(kept))
    assert next(releases).step == 0
    with pytest.raises(DataError, match="chunk-000001"):
        next(releases)


def test_an_interrupted_write_leaves_the_earlier_steps_and_can_be_taken_up(kept, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        writer = TranscriptWriter(kept, IDS)
        writer.write(release(3))
        patch.setattr(os, "fsync", interrupt)  # after the bytes, before the file has its name
        with pytest.raises(KeyboardInterrupt):
            writer.flush()
    assert [path.name for path in kept.glob("*.partial")] == ["chunk-000003.safetensors.partial"]
    assert [found.step for found in Transcript(kept)] == [0, 1, 2]

    again = TranscriptWriter(kept, IDS)
    assert not list(kept.glob("*.partial"))
    again.write(release(3))
    again.flush()
    assert Transcript(kept).steps == (0, 1, 2, 3)


def test_a_resend_of_the_same_bytes_is_accepted_and_other_bytes_are_not(tmp_path):
    writer = TranscriptWriter(tmp_path, IDS)
    assert writer.write(release(2))
    assert writer.write(release(2))
    with pytest.raises(DataError, match="another release of step 2"):
        writer.write(release(2, seed=99))
    writer.flush()
    assert Transcript(tmp_path).steps == (2,)
    assert_same(Transcript(tmp_path).release(2), release(2))


def test_what_waits_cannot_be_changed_from_outside(tmp_path):
    writer, sent = TranscriptWriter(tmp_path, IDS), release(0)
    writer.write(sent)
    sent.gradient.zero_()
    writer.flush()
    assert_same(Transcript(tmp_path).release(0), release(0))


def test_nan_is_kept_as_it_was_sent(tmp_path):
    sent = Release(0, 0, torch.tensor([1]), torch.zeros(1, 1), torch.tensor([[float("nan")]]))
    writer = TranscriptWriter(tmp_path, IDS)
    writer.write(sent)
    assert writer.write(sent)
    writer.flush()
    assert bool(Transcript(tmp_path).release(0).gradient.isnan().all())


MANY = [str(number) for number in range(4000)]


def record_many(folder: Path, limit: int, epochs: int = 3, seed: int = 0) -> TranscriptWriter:
    """Four batches an epoch; every row says whose it is and when it was sent."""
    writer = TranscriptWriter(
        folder, MANY, limit_bytes=limit, generator=torch.Generator().manual_seed(seed)
    )
    for step in range(4 * epochs):
        records = torch.arange(4000)[step % 4 :: 4]
        rows = torch.stack([records, torch.full_like(records, step)], dim=1).float()
        writer.write(Release(step, step // 4, records, rows, rows))
    writer.flush()
    return writer


def test_a_limit_keeps_whole_histories_of_a_uniform_sample(tmp_path):
    limit = 150_000  # 3 x 4000 rows of 24 bytes are 288,000 beside 63,000 of lists
    writer = record_many(tmp_path, limit)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= limit
    transcript = Transcript(tmp_path)
    assert transcript.sampled == writer.sampled == 1000  # halved twice
    visits = torch.zeros(4000, dtype=torch.int64)
    for found in transcript:
        visits[found.records] += 1
        assert torch.equal(found.gradient[:, 0].long(), found.records)
        assert bool((found.gradient[:, 1] == found.step).all())
    assert sorted(set(visits.tolist())) == [0, 3]  # all visits, or none
    assert int((visits == 3).sum()) == 1000
    # A uniform sample of a quarter has 250 of each 1000: five deviations of the hypergeometric.
    deviation = (1000 * 0.25 * 0.75 * 3000 / 3999) ** 0.5
    for part in visits.split(1000):
        assert abs(int((part == 3).sum()) - 250) < 5 * deviation


def test_a_sample_shrinks_further_when_the_training_goes_on(tmp_path):
    record_many(tmp_path, 150_000)
    before = {r for found in Transcript(tmp_path) for r in found.records.tolist()}
    writer = TranscriptWriter(tmp_path, MANY, limit_bytes=130_000, generator=torch.Generator())
    after = {r for found in Transcript(tmp_path) for r in found.records.tolist()}
    assert len(after) == writer.sampled < 1000
    assert after < before


@pytest.fixture
def interrupted(tmp_path, monkeypatch) -> Path:
    """A transcript in three chunks of which one was thinned before the process died."""
    from cutlayer.transcript import folder as module

    def interrupt(path, releases):
        if path.name.endswith("1.safetensors"):
            raise KeyboardInterrupt
        write(path, releases)

    write = module._write_chunk
    with monkeypatch.context() as patch:
        patch.setattr(module, "SMALLEST_CHUNK_BYTES", 1)
        record_many(tmp_path, 10_000_000)
        patch.setattr(module, "_write_chunk", interrupt)
        with pytest.raises(KeyboardInterrupt):
            TranscriptWriter(tmp_path, MANY, limit_bytes=250_000, generator=torch.Generator())
    return tmp_path


def test_an_interruption_while_records_leave_keeps_whole_histories(interrupted):
    visits = torch.zeros(4000, dtype=torch.int64)
    for found in Transcript(interrupted):
        visits[found.records] += 1
    assert sorted(set(visits.tolist())) == [0, 3]
    assert int((visits == 3).sum()) == 2000


def test_an_interrupted_leaving_is_finished_before_anybody_else_leaves(interrupted):
    # Half of the records are 144,000 bytes beside 63,000 of lists.
    before = {r for found in Transcript(interrupted) for r in found.records.tolist()}
    assert sum(path.stat().st_size for path in interrupted.iterdir()) > 250_000
    writer = TranscriptWriter(interrupted, MANY, limit_bytes=250_000, generator=torch.Generator())
    assert writer.sampled == 2000
    assert sum(path.stat().st_size for path in interrupted.iterdir()) <= 250_000
    assert {r for found in Transcript(interrupted) for r in found.records.tolist()} == before


def test_an_interrupted_leaving_within_the_limit_is_finished_when_the_limit_is_met(interrupted):
    writer = TranscriptWriter(interrupted, MANY, limit_bytes=320_000, generator=torch.Generator())
    for step in (12, 13):  # 24,000 bytes each, of which half are kept: too many by 7,000
        records = torch.arange(4000)[step % 4 :: 4]
        rows = torch.zeros(1000, 2)
        writer.write(Release(step, 3, records, rows, rows))
    writer.flush()
    assert writer.sampled == 2000


def test_what_a_chunk_had_gathered_leaves_with_the_records(tmp_path):
    # Nothing is ever large enough to stand: the one chunk is written again and again.
    writer = record_many(tmp_path, 150_000)
    assert len(list(tmp_path.glob("chunk-*"))) == 1
    writer.write(Release(12, 3, torch.arange(4000), torch.zeros(4000, 2), torch.zeros(4000, 2)))
    writer.flush()
    last = list(Transcript(tmp_path))[-1]
    assert (last.step, len(last.records)) == (12, writer.sampled)
    with safe_open(path_of(tmp_path, 0), framework="pt") as file:
        assert len(file.get_tensor("records").unique()) == writer.sampled


def test_the_sample_follows_the_generator_and_nothing_else(tmp_path):
    kept = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        record_many(tmp_path / name, 150_000, seed=seed)
        kept.append({r for f in Transcript(tmp_path / name) for r in f.records.tolist()})
    assert kept[0] == kept[1] != kept[2]


def test_a_limit_without_room_for_the_lists_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"needs at least .* bytes, got a limit of 1,000"):
        TranscriptWriter(tmp_path, MANY, limit_bytes=1000, generator=torch.Generator())
    with pytest.raises(ValueError, match="generator must be given"):
        TranscriptWriter(tmp_path, MANY, limit_bytes=10**6)


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
    writer = TranscriptWriter(tmp_path, IDS)
    with pytest.raises(ValueError, match=message):
        writer.write(wrong)
    writer.flush()
    assert not path_of(tmp_path, 0).exists()


@pytest.mark.parametrize(("ids", "every"), [(IDS, 0), ([], 1)])
def test_a_writer_without_ids_or_without_steps_is_refused(tmp_path, ids, every):
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        TranscriptWriter(tmp_path, ids, every)


@pytest.mark.parametrize("length", [0, 5, 40, -7])
def test_a_truncated_chunk_is_named_with_what_to_do(kept, length):
    path = path_of(kept, 1)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DataError, match=r"chunk-000001.*damaged.*record the run again"):
        Transcript(kept)


def rewritten(path: Path, *, tensors=None, metadata=None) -> None:
    """Replace parts of a kept file."""
    with safe_open(path, framework="pt") as file:
        old_metadata = file.metadata()
        old_tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    save_file({**old_tensors, **(tensors or {})}, path, {**old_metadata, **(metadata or {})})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"cutlayer": "model/1"}}, "must be of kind 'transcript.chunk/1'"),
        ({"metadata": {"epochs": "late"}}, "its head names no steps"),
        ({"metadata": {"epochs": "0 1"}}, "unequal steps and epochs"),
        ({"tensors": {"labels": torch.zeros(3)}}, "must hold activation, epochs, gradient"),
        ({"tensors": {"records": torch.tensor([0, 1, 9])}}, "records must lie in 0 to 3"),
        ({"tensors": {"records": torch.tensor([0, 1])}}, "no valid releases"),
        ({"tensors": {"gradient": torch.zeros(3)}}, "gradient must have shape"),
        ({"tensors": {"rows": torch.tensor([2])}}, "no valid releases"),
        ({"tensors": {"steps": torch.tensor([1, 2])}}, "no valid releases"),
    ],
)
def test_a_chunk_that_contradicts_itself_is_named(kept, change, message):
    rewritten(path_of(kept, 1), **change)
    with pytest.raises(DataError, match=message) as caught:
        list(Transcript(kept))
    assert str(path_of(kept, 1)) in str(caught.value)
    assert "record the run again" in str(caught.value)


def test_a_step_that_was_not_kept_is_named(kept):
    with pytest.raises(DataError, match=r"no release of step 9"):
        Transcript(kept).release(9)


def test_a_missing_chunk_is_named(kept):
    path_of(kept, 1).unlink()
    with pytest.raises(DataError, match=r"must hold chunk-000001.safetensors before"):
        Transcript(kept)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tensors": {"rank": torch.arange(3)}}, "fits no list of 4 ids"),
        ({"metadata": {"size": "9"}}, "fits no list of 4 ids"),
        ({"metadata": {"size": "few"}}, "fits no list of 4 ids"),
    ],
)
def test_a_damaged_sample_is_named(kept, change, message):
    rewritten(kept / "sample.safetensors", **change)
    with pytest.raises(DataError, match=message):
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
