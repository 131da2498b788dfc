from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from cutlayer.audits import (
    HINTS,
    TRANSCRIPT,
    TRUTH,
    ReleaseRecorder,
    audit_leak,
    read_ground_truth,
    read_hints,
)
from cutlayer.audits.recording.recorded_training import read_recorded_training
from cutlayer.errors import DataError
from cutlayer.transcript import Release, Transcript

IDS = [f"customer {number}" for number in range(12)]
LABELS = (torch.arange(12) % 3 == 0).long()


def batch(step: int, records: torch.Tensor) -> tuple[Release, torch.Tensor, torch.Tensor]:
    """What an observer is given: plain rank-one gradients, sent with a little noise."""
    labels = LABELS[records]
    clean = (1 / 3 - labels.float())[:, None] * torch.tensor([1.0, -2.0])
    noise = 1e-3 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(step))
    activation = torch.zeros(len(records), 2)
    return Release(step, step // 2, records, activation, clean + noise), labels, clean


def record(folder, *, every=1, canaries=None, seed=0, steps=6):
    generator = torch.Generator().manual_seed(seed)
    recorder = ReleaseRecorder(folder, IDS, generator=generator, every=every, canaries=canaries)
    with recorder:
        for step in range(steps):
            half = torch.arange(12)[step % 2 :: 2]
            recorder.on_release(*batch(step, half))


def test_what_was_recorded_can_be_audited(tmp_path):
    record(tmp_path)
    transcript = Transcript(tmp_path / TRANSCRIPT)
    assert transcript.ids == tuple(IDS)
    assert transcript.steps == tuple(range(6))
    truth = read_ground_truth(tmp_path / TRUTH)
    assert torch.equal(truth.labels.long(), LABELS)
    hints = read_hints(tmp_path / HINTS)
    audit = audit_leak(transcript, truth, hints=hints)
    for found in audit.measurements:
        if found.attack in ("norm", "cosine", "majority_count", "first_component"):
            assert found.leak_auc == 1.0, found


def test_hints_are_positives_of_their_step_with_the_clean_gradient(tmp_path):
    record(tmp_path)
    transcript, hints = Transcript(tmp_path / TRANSCRIPT), read_hints(tmp_path / HINTS)
    assert set(hints) == set(transcript.steps)
    for step, hint in hints.items():
        assert LABELS[hint.record] == 1
        release = transcript.release(step)
        assert hint.record in release.records.tolist()
        assert hint.gradient.tolist() == pytest.approx([-2 / 3, 4 / 3])


def test_hints_follow_the_seed(tmp_path):
    picked = []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        record(tmp_path / folder, seed=seed, steps=12)
        hints = read_hints(tmp_path / folder / HINTS)
        picked.append([hint.record for hint in hints.values()])
    assert picked[0] == picked[1] != picked[2]


def test_canaries_are_kept_and_never_given_away(tmp_path):
    canaries = torch.zeros(12, dtype=torch.bool)
    canaries[[0, 3, 6]] = True  # of step 0, 2, 4 the positives are 0 and 6
    record(tmp_path, canaries=canaries)
    assert torch.equal(read_ground_truth(tmp_path / TRUTH).canaries, canaries)
    hints = read_hints(tmp_path / HINTS)
    assert {step: hint.record for step, hint in hints.items()} == {1: 9, 3: 9, 5: 9}


def test_only_sampled_steps_have_releases_and_hints_but_all_labels_are_known(tmp_path):
    record(tmp_path, every=2)
    assert Transcript(tmp_path / TRANSCRIPT).steps == (0, 2, 4)
    assert set(read_hints(tmp_path / HINTS)) == {0, 2, 4}
    assert bool((read_ground_truth(tmp_path / TRUTH).labels >= 0).all())


def test_records_never_released_have_no_known_label(tmp_path):
    record(tmp_path, steps=1)
    labels = read_ground_truth(tmp_path / TRUTH).labels
    assert bool((labels[1::2] == -1).all())
    assert torch.equal(labels[::2].long(), LABELS[::2])


def test_an_interrupted_training_keeps_what_was_done(tmp_path):
    def interrupted():
        with ReleaseRecorder(tmp_path, IDS, generator=torch.Generator()) as recorder:
            recorder.on_release(*batch(0, torch.arange(12)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    audit = audit_leak(
        Transcript(tmp_path / TRANSCRIPT),
        read_ground_truth(tmp_path / TRUTH),
        hints=read_hints(tmp_path / HINTS),
    )
    assert audit.releases == 1


def test_the_transcript_folder_tells_nothing_about_labels_in_clear(tmp_path):
    record(tmp_path)
    tensors = set()
    for path in (tmp_path / TRANSCRIPT).iterdir():
        with safe_open(path, framework="pt") as file:
            tensors |= set(file.keys())
    assert tensors == {
        "text", "lengths", "rank", "steps", "epochs", "rows", "records", "activation", "gradient",
    }  # fmt: skip


def test_recording_changes_nothing_that_is_sent(tmp_path):
    release, labels, clean = batch(0, torch.arange(12))
    sent = release.gradient.clone()
    recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator())
    recorder.on_release(release, labels, clean)
    assert torch.equal(release.gradient, sent)


def test_a_label_that_changes_between_visits_is_refused(tmp_path):
    recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator())
    release, labels, clean = batch(0, torch.arange(12))
    recorder.on_release(release, labels, clean)
    release, labels, clean = batch(1, torch.arange(12))
    with pytest.raises(ValueError, match="must stay the same in every visit, got 12"):
        recorder.on_release(release, 1 - labels, clean)


@pytest.mark.parametrize(
    "canaries", [torch.zeros(12, dtype=torch.bool), torch.ones(3, dtype=torch.bool)]
)
def test_a_mask_that_could_not_be_written_later_is_refused_at_once(tmp_path, canaries):
    with pytest.raises(ValueError, match="canaries must"):
        ReleaseRecorder(tmp_path, IDS, generator=torch.Generator(), canaries=canaries)


def test_a_killed_training_keeps_its_finished_epochs_and_is_gone_on_with(tmp_path):
    recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator())
    for step in range(3):  # epochs 0 and 1; the process dies without a word in epoch 1
        recorder.on_release(*batch(step, torch.arange(12)[step % 2 :: 2]))
    assert Transcript(tmp_path / TRANSCRIPT).steps == (0, 1)
    assert set(read_hints(tmp_path / HINTS)) == {0, 1}
    with ReleaseRecorder(tmp_path, IDS, generator=torch.Generator()) as again:
        for step in range(2, 4):
            again.on_release(*batch(step, torch.arange(12)[step % 2 :: 2]))
    assert Transcript(tmp_path / TRANSCRIPT).steps == (0, 1, 2, 3)
    assert set(read_hints(tmp_path / HINTS)) == {0, 1, 2, 3}
    assert bool((read_ground_truth(tmp_path / TRUTH).labels >= 0).all())


def test_what_a_killed_process_did_not_write_down_is_taken_from_the_copies(tmp_path):
    recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator())
    for step in range(4):  # a checkpoint after step 0, and death after step 3
        recorder.on_release(*batch(step, torch.arange(12)[step % 2 :: 2]))
        if step == 0:
            recorder.on_checkpoint()
    with ReleaseRecorder(tmp_path, IDS, generator=torch.Generator()) as again:
        for step in range(1, 4):
            again.on_copy(*batch(step, torch.arange(12)[step % 2 :: 2]))
        again.on_copy(*batch(2, torch.arange(12)[::2]))  # the connection was lost once more
        again.on_release(*batch(4, torch.arange(12)[::2]))
    transcript = Transcript(tmp_path / TRANSCRIPT)
    assert transcript.steps == (0, 1, 2, 3, 4)
    for release in transcript:
        sent = batch(release.step, torch.arange(12)[release.step % 2 :: 2])[0]
        assert torch.equal(release.gradient, sent.gradient)
    assert set(read_hints(tmp_path / HINTS)) == {0, 1, 2, 3, 4}


def test_a_limit_reaches_the_transcript(tmp_path):
    generator = torch.Generator().manual_seed(0)
    with ReleaseRecorder(tmp_path, IDS, generator=generator, limit_bytes=5000) as recorder:
        for step in range(60):
            recorder.on_release(*batch(step, torch.arange(12)[step % 2 :: 2]))
    transcript = Transcript(tmp_path / TRANSCRIPT)
    assert transcript.sampled < 12
    audit = audit_leak(
        transcript, read_ground_truth(tmp_path / TRUTH), hints=read_hints(tmp_path / HINTS)
    )
    assert audit.releases == len(transcript)


def test_steps_that_are_not_recorded_have_no_hint_when_they_are_sent_again(tmp_path):
    record(tmp_path, every=3, steps=5)
    with ReleaseRecorder(tmp_path, IDS, generator=torch.Generator(), every=3) as again:
        for step in range(2, 6):
            again.on_copy(*batch(step, torch.arange(12)[step % 2 :: 2]))
    assert set(read_hints(tmp_path / HINTS)) == {0, 3}


def written(folder) -> dict[str, int]:
    """When each file that is no message was last written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}


def test_a_checkpoint_writes_what_is_new_and_no_more(tmp_path):
    recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator())
    recorder.on_checkpoint()  # a run keeps its first state before the first step
    before = written(tmp_path)
    assert set(before) == {TRUTH, HINTS}
    hints, labels = set(), 0
    for number, records in enumerate(([0, 1, 2, 3], [4, 5, 6], [0, 4, 7, 8])):
        sent, known, clean = batch(number, torch.tensor(records))
        recorder.on_release(replace(sent, epoch=0), known, clean)
        recorder.on_checkpoint()
        recorder.on_checkpoint()  # nothing has come since
        path = tmp_path / f"notes-{number:06d}.safetensors"
        note = load_file(path)
        assert note["steps"].tolist() == [number]
        labels += len(note["labelled"])
        hints |= set(note["steps"].tolist())
        assert {TRUTH: before[TRUTH], HINTS: before[HINTS]}.items() <= written(tmp_path).items()
    assert (labels, hints) == (9, {0, 1, 2})  # each label once
    assert len(written(tmp_path)) == 2 + 3
    recorder.close()
    assert set(written(tmp_path)) == {TRUTH, HINTS}
    assert set(read_hints(tmp_path / HINTS)) == {0, 1, 2}
    assert int((read_ground_truth(tmp_path / TRUTH).labels >= 0).sum()) == 9


def killed_after_checkpoints(folder, steps=3):
    """A training that died without a word in its first epoch, after a checkpoint at each step."""
    recorder = ReleaseRecorder(folder, IDS, generator=torch.Generator())
    recorder.on_checkpoint()
    for step in range(steps):
        sent, known, clean = batch(step, torch.arange(12)[step % 2 :: 2])
        recorder.on_release(replace(sent, epoch=0), known, clean)
        recorder.on_checkpoint()


@pytest.mark.parametrize("positive", [0, 1])
def test_s2_a_checkpoint_writes_a_note_after_each_step_whatever_it_told(tmp_path, positive):
    recorder = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator())
    rows = torch.nonzero(positive == LABELS).flatten()[:2]
    for step in range(3):
        recorder.on_checkpoint()
        assert len(list(tmp_path.glob("notes-*"))) == step
        sent, known, clean = batch(step, rows)
        recorder.on_release(replace(sent, epoch=0), known, clean)
    recorder.on_checkpoint()
    recorder.close()
    assert len(read_hints(tmp_path / HINTS)) == 3 * positive


def test_what_checkpoints_rely_on_is_read_after_a_kill(tmp_path):
    killed_after_checkpoints(tmp_path)
    recorded = read_recorded_training(tmp_path)
    assert recorded.releases.steps == (0, 1, 2)
    assert set(recorded.hints) == {0, 1, 2}
    assert torch.equal(recorded.truth.labels.long(), LABELS)


def test_what_checkpoints_rely_on_is_gone_on_with_after_a_kill(tmp_path):
    killed_after_checkpoints(tmp_path, steps=1)
    again = ReleaseRecorder(tmp_path, IDS, generator=torch.Generator())
    again.on_release(*batch(1, torch.arange(12)[1::2]))
    again.on_checkpoint()
    assert len(list(tmp_path.glob("notes-*"))) == 2
    again.close()
    assert set(written(tmp_path)) == {TRUTH, HINTS}
    assert set(read_hints(tmp_path / HINTS)) == {0, 1}
    assert torch.equal(read_ground_truth(tmp_path / TRUTH).labels.long(), LABELS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labelled": torch.tensor([0, 99, 4, 6, 8, 10])}, "labelled must lie in 0 to 11"),
        ({"labels": torch.tensor([1, 0])}, "labels must have shape"),
        ({"gradients": torch.full((1, 2), float("nan"))}, "gradient must be finite"),
        ({"other": torch.zeros(1)}, "must hold gradients, labelled"),
    ],
)
def test_damaged_notes_are_named(tmp_path, change, message):
    killed_after_checkpoints(tmp_path, steps=1)
    path = tmp_path / "notes-000000.safetensors"
    save_file({**load_file(path), **change}, path, {"cutlayer": "audit.notes/1"})
    with pytest.raises(DataError, match=message) as caught:
        read_recorded_training(tmp_path)
    assert str(path) in str(caught.value)


def test_a_folder_with_labels_of_other_records_is_refused(tmp_path):
    record(tmp_path)
    with pytest.raises(DataError, match="a label for each of 3 records, got 12"):
        ReleaseRecorder(tmp_path, IDS[:3], generator=torch.Generator())
