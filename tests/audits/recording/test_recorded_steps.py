"""Which steps a recording has seen, over several starts and with a crash between them."""

import pytest
import torch

from cutlayer.audits import TRANSCRIPT, ReleaseRecorder
from cutlayer.audits.recording.recorded_steps import STEPS, RecordedSteps, read_recorded_steps
from cutlayer.errors import DataError
from cutlayer.transcript import Transcript
from tests.audits.recording.test_recorder import IDS, batch, record


def spans(folder):
    return read_recorded_steps(folder, Transcript(folder / TRANSCRIPT)).spans


def half(step):
    return batch(step, torch.arange(12)[step % 2 :: 2])


def go_on(folder, steps, *, copies=()):
    """A later start: copies of what was sent before, then new steps; never closed."""
    recorder = ReleaseRecorder(folder, IDS, generator=torch.Generator())
    for step in copies:
        recorder.on_copy(*half(step))
    for step in steps:
        recorder.on_release(*half(step))
    return recorder


@pytest.mark.parametrize("seed", range(5))
def test_missing_steps_by_the_definition(seed):
    """Against the plain set, step by step, in any order."""
    g = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(30, generator=g)[:18].tolist()
    seen = RecordedSteps()
    for step in chosen:
        seen = seen.with_step(step)
    for sent in (0, 7, 30, 40):
        missing = [step for first, end in seen.missing(sent) for step in range(first, end)]
        assert missing == [step for step in range(sent) if step not in chosen]
    assert seen == RecordedSteps.of(chosen)


def test_a_recording_knows_what_it_saw(tmp_path):
    record(tmp_path, steps=6)
    assert spans(tmp_path) == ((0, 6),)
    go_on(tmp_path, [6, 7]).close()
    assert spans(tmp_path) == ((0, 8),)


def test_what_a_start_without_a_recorder_sent_is_missing(tmp_path):
    record(tmp_path, steps=4)
    go_on(tmp_path, [10, 11]).close()
    assert spans(tmp_path) == ((0, 4), (10, 12))
    assert RecordedSteps(spans(tmp_path)).missing(14) == ((4, 10), (12, 14))


def test_a_step_without_a_sampled_record_was_seen_all_the_same(tmp_path):
    """In a sample of one record of twelve, that of even steps, odd steps leave no release."""
    record(tmp_path, steps=6)
    limit = sum(path.stat().st_size for path in (tmp_path / TRANSCRIPT).iterdir()) - 1
    recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator(), limit_bytes=limit)
    while Transcript(tmp_path / TRANSCRIPT).sampled > 1:
        recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator(), limit_bytes=limit)
        limit -= 64
    recorder.on_release(*half(6))
    recorder.on_release(*half(7))
    recorder.close()
    assert len(Transcript(tmp_path / TRANSCRIPT).steps) == 4
    assert spans(tmp_path) == ((0, 8),)
    (tmp_path / STEPS).unlink()  # as an earlier version left it: no gap is made up
    assert len(spans(tmp_path)) == 1


def test_what_a_crash_cost_is_missing_until_it_is_sent_again(tmp_path):
    record(tmp_path, steps=4)
    go_on(tmp_path, [4, 5])  # ended without a word: its chunk never reached the disk
    assert spans(tmp_path) == ((0, 4),)
    go_on(tmp_path, [6], copies=[4, 5]).close()
    assert spans(tmp_path) == ((0, 7),)


def test_a_chunk_that_was_written_before_the_crash_counts(tmp_path):
    record(tmp_path, steps=4)
    recorder = go_on(tmp_path, [8, 9])
    recorder._transcript.flush()  # as it does by itself when a chunk is full
    assert spans(tmp_path) == ((0, 4), (8, 10))


def test_without_a_list_the_transcript_stands_for_it(tmp_path):
    record(tmp_path, steps=3)
    (tmp_path / STEPS).unlink()
    go_on(tmp_path, [5]).close()
    (tmp_path / STEPS).unlink()
    assert spans(tmp_path) == ((0, 3), (5, 6))


@pytest.mark.parametrize("text", ["", "{}", '{"spans": [[3, 1]]}', '{"spans": [[0, 4], [2, 6]]}'])
def test_a_damaged_list_is_named(tmp_path, text):
    record(tmp_path)
    (tmp_path / STEPS).write_text(text)
    with pytest.raises(DataError, match=r"steps\.json is damaged"):
        spans(tmp_path)
