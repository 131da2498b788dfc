"""The messages of one batch, attacked as one release."""

import pytest
import torch

from cutlayer.audits.hints import Hint
from cutlayer.audits.recording.joined_messages import JoinedMessages
from cutlayer.transcript import Release, Transcript, TranscriptWriter


def message(step, records):
    rows = torch.tensor(records)
    value = rows[:, None].float()
    return Release(step, step // 4, rows, value, -value)


@pytest.fixture
def transcript(tmp_path):
    """Batches of two messages; of batch 2 the second alone was recorded."""
    writer = TranscriptWriter(tmp_path, [str(n) for n in range(10)])
    for step, records in ((0, [1, 2]), (1, [3]), (2, [4]), (3, [0, 5]), (5, [6, 7])):
        writer.write(message(step, records))
    writer.flush()
    return Transcript(tmp_path)


def test_rows_of_one_batch_stand_together(transcript):
    joined = JoinedMessages(transcript, 2)
    found = [(r.step, r.epoch, r.records.tolist()) for r in joined]
    assert found == [(0, 0, [1, 2, 3]), (2, 0, [4, 0, 5]), (5, 1, [6, 7])]
    assert len(joined) == 3
    for release in joined:
        assert torch.equal(release.activation[:, 0], release.records.float())
        assert torch.equal(release.gradient[:, 0], -release.records.float())


def test_a_batch_has_the_first_hint_of_its_messages(transcript):
    hints = {step: Hint(record, torch.ones(1)) for step, record in ((1, 3), (2, 4), (3, 5), (5, 6))}
    joined = JoinedMessages(transcript, 2).hints(hints)
    assert {step: hint.record for step, hint in joined.items()} == {0: 3, 2: 4, 5: 6}


def test_a_message_that_stands_there_twice_counts_once(tmp_path):
    writer = TranscriptWriter(tmp_path, [str(n) for n in range(10)])
    for step, records in ((0, [1]), (1, [2]), (0, [1]), (1, [2])):
        writer.write(message(step, records))
    writer.flush()
    (release,) = JoinedMessages(Transcript(tmp_path), 2)
    assert release.records.tolist() == [1, 2]


def test_there_is_at_least_one_message(transcript):
    with pytest.raises(ValueError, match="messages must be a whole number of at least 1"):
        JoinedMessages(transcript, 0)
