import shutil
from collections import namedtuple

import polars as pl
import pytest
import torch

from cutlayer.audits import ReleaseRecorder
from cutlayer.data import BatchSchedule, PartyTable
from cutlayer.errors import StorageError
from cutlayer.models import Top, mlp
from cutlayer.parties import CheckpointStore
from cutlayer.runs.configuration import LabelConfiguration, NonLabelConfiguration
from cutlayer.runs.disk_space import (
    disk_space_for,
    disk_space_still_needed,
    free_bytes,
    require_disk_space,
)
from cutlayer.transcript import Release

BASE = {"run": "r", "file": "t.csv", "id": "id", "epochs": 3, "batch_size": 50, "cut_width": 4}
BASE |= {"hidden": (8,), "validation_share": 0.1, "test_share": 0.2, "protection": "no_noise"}


def table(party, columns, records=1000):
    features = {f"x{k}": torch.arange(records).mul(k + 1).tolist() for k in range(columns)}
    labels = torch.arange(records) % 2 if party == "label party" else None
    return PartyTable(party, [f"i{i}" for i in range(records)], pl.DataFrame(features), labels)


def test_of_the_non_label_party_by_hand():
    # 5 -> 8 -> 4 with biases: 48 + 36 = 84 numbers; 4 checkpoints of 3 x 84 floats.
    room = disk_space_for(NonLabelConfiguration(**BASE), table("non-label party", 5))
    assert (room.checkpoints, room.journal, room.recording) == (4 * 3 * 84 * 4, 0, 0)


def test_of_the_label_party_by_hand():
    # The cut and 2 columns in: 6 -> 8 -> 1, 56 + 9 = 65 numbers. 700 records train: 14 steps an
    # epoch, 42 in all.
    configuration = LabelConfiguration(**BASE, label="y")
    room = disk_space_for(configuration, table("label party", 2))
    assert (room.checkpoints, room.journal, room.recording) == (4 * 3 * 65 * 4, 42 * 80, 0)
    assert room.total == 4 * 3 * 65 * 4 + 42 * 80


def test_of_a_recording_by_hand():
    # 2100 rows of 2 x 4 floats and a position, 42 steps of 40 bytes. 1000 ids "i0" to "i999" have
    # 3890 letters, a length and a rank each. Then 1000 labels, and 42 hints of 4 floats, a step
    # and a position.
    messages = 2100 * (2 * 16 + 8) + 42 * 40 + 3890 + 1000 * 12
    beside = 1000 + 42 * (16 + 16)
    whole = LabelConfiguration(**BASE, label="y", record="1 GiB")
    assert disk_space_for(whole, table("label party", 2)).recording == messages + beside
    small = LabelConfiguration(**BASE, label="y", record=50_000)
    assert disk_space_for(small, table("label party", 2)).recording == 50_000 + beside


@pytest.mark.parametrize("micro_batches", [1, 5])
@pytest.mark.parametrize("limit", [None, 300_000])
def test_a_real_recording_takes_about_what_was_estimated(tmp_path, micro_batches, limit):
    changed = {**BASE, "cut_width": 16, "batch_size": 300, "micro_batches": micro_batches}
    records = table("label party", 2, records=1000)
    record = limit or "1 GiB"
    configuration = LabelConfiguration(**changed, label="y", record=record)
    # 700 of them train, in batches of 350.
    schedule = BatchSchedule(700, 300, 3, seed=0, micro_batches=micro_batches)
    generator = torch.Generator().manual_seed(0)
    messages = tmp_path / "messages"
    with ReleaseRecorder(messages, records.ids, generator=generator, limit_bytes=limit) as recorder:
        for part in schedule:
            rows = torch.randn(len(part.positions), 16, generator=generator)
            recorder.on_release(
                Release(part.step, part.epoch, part.positions, rows, rows),
                records.labels[part.positions],
                rows,
            )
    kept = sum(path.stat().st_size for path in messages.rglob("*.safetensors"))
    room = disk_space_for(configuration, records)
    if limit is None:  # names and shapes come on top
        assert kept == pytest.approx(room.recording, rel=0.02)
        assert disk_space_still_needed(room, tmp_path).recording < 0.02 * kept
    else:  # the sample is halved until it fits
        assert 0.4 * room.recording < kept <= 1.02 * room.recording


def test_each_message_of_a_batch_has_its_entry_in_the_journal_by_hand():
    # 42 updates of 5 messages.
    configuration = LabelConfiguration(**BASE, label="y", micro_batches=5)
    assert disk_space_for(configuration, table("label party", 2)).journal == 42 * 5 * 80


def test_two_heads_take_the_room_of_two():
    # The message head sees the cut alone: 4 -> 8 -> 1, 40 + 9 = 49 numbers.
    changed = {**BASE, "protection": "residual:sigma=1"}
    configuration = LabelConfiguration(**changed, label="y")
    assert (
        disk_space_for(configuration, table("label party", 2)).checkpoints == 4 * 3 * (65 + 49) * 4
    )


def test_frozen_keeps_nothing_to_go_on_from():
    configuration = NonLabelConfiguration(**{**BASE, "protection": "frozen"})
    assert disk_space_for(configuration, table("non-label party", 5)).total == 0


@pytest.mark.parametrize("kind", [mlp, Top])
def test_a_real_checkpoint_takes_about_what_was_estimated(tmp_path, kind):
    generator = torch.Generator()
    if kind is mlp:
        half = mlp([50, 64, 32], generator)
        configuration = NonLabelConfiguration(**{**BASE, "hidden": (64,), "cut_width": 32})
        room = disk_space_for(configuration, table("non-label party", 50))
        half(torch.randn(3, 50)).sum().backward()
    else:
        half = Top(32, 20, (64,), generator)
        changed = {**BASE, "hidden": (64,), "cut_width": 32}
        room = disk_space_for(LabelConfiguration(**changed, label="y"), table("label party", 20))
        half(torch.randn(3, 32), torch.randn(3, 20)).sum().backward()
    optimizer = torch.optim.Adam(half.parameters())
    optimizer.step()
    CheckpointStore(tmp_path / "checkpoints").save(1, {"half": half}, {"half": optimizer})
    kept = sum(p.stat().st_size for p in tmp_path.rglob("*.safetensors"))
    assert kept == pytest.approx(room.checkpoints / 4, rel=0.05)  # names and shapes come on top
    assert disk_space_still_needed(room, tmp_path).checkpoints < room.checkpoints - 0.9 * kept


def test_a_full_disk_is_refused_before_anything_is_sent(tmp_path, monkeypatch):
    configuration = NonLabelConfiguration(**BASE, folder=tmp_path / "not" / "yet")
    records = table("non-label party", 5)
    require_disk_space(configuration, records)
    usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10_000, 6_000, 4_000))
    assert free_bytes(configuration.run_folder) == 4_000
    with pytest.raises(StorageError, match=r"non-label party: folder: .* 4,000 bytes .* 4,032"):
        require_disk_space(configuration, records)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10_000, 5_968, 4_032))
    require_disk_space(configuration, records)
