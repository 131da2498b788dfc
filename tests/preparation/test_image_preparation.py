"""Images to shards: every form of download, broken files, selection, resumption."""

import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from cutlayer.data import Split
from cutlayer.data.prepared import PreparedData
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.preparation import ImageOptions, SplitOptions, prepare_images, raw_images
from cutlayer.preparation.image_preparation import kept_entries
from cutlayer.preparation.raw_images import ImageEntry, decoded

HAM = Path(__file__).parents[3] / "shared/data/ham10000-melanoma-84"
LABEL, OTHER = "label party", "non-label party"
SMALL = ImageOptions(size=8, negatives_per_positive=None, max_rejects=0.5, shard_rows=4)


def grey(level, size=(12, 10), form="PNG"):
    """One colour: resizing leaves it as it is."""
    target = io.BytesIO()
    Image.new("RGB", size, (level, level // 2, 0)).save(target, form, quality=95)
    return target.getvalue()


def level_of(records, row):
    return round(float(records.features[row, 0].mean()) * 255)


@pytest.fixture
def table_and_folder(tmp_path):
    """Nine images, two of them positive; one more has no file, one is cut off, one no label."""
    folder = tmp_path / "jpeg"
    folder.mkdir()
    lines = ["image_name,age,target"]
    for number in range(9):
        name = f"ISIC_{number}"
        (folder / f"{name}.jpg").write_bytes(grey(20 * number, form="JPEG"))
        lines.append(f"{name},{number},{int(number in (2, 5))}")
    (folder / "cut.jpg").write_bytes(grey(7, (200, 200), "JPEG")[:300])
    lines += ["absent,,0", "cut,,0", "ISIC_1,,", "../jpeg/ISIC_1,,0", "ISIC_2,,0"]
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "train.csv", folder


def test_a_folder_and_a_table(tmp_path, table_and_folder):
    table, folder = table_and_folder
    made = prepare_images(raw_images(folder, table), tmp_path / "out", SMALL)
    assert (made.rows, made.rejected) == (9, 5)
    assert (tmp_path / "out/rejects.csv").read_text().splitlines() == [
        "line,reason",
        "13,the label is none of the values it may have",
        "15,the id stands above already",
        "11,has no image file",
        "12,is no whole image (OSError)",
        "14,has no image file",
    ]
    data = PreparedData(tmp_path / "out")
    images, labels = data.party_records(OTHER), data.party_records(LABEL)
    assert images.ids == labels.ids == tuple(f"ISIC_{number}" for number in range(9))
    assert images.features.shape == (9, 3, 8, 8)
    assert images.labels is None
    for row in range(9):
        assert abs(level_of(images, row) - 20 * row) <= 2  # JPEG rounds
        assert float(images.features[row, 2].max()) <= 2 / 255
    assert labels.labels is not None
    assert labels.labels.tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 0]
    assert labels.features.shape == (9, 0)
    split = Split.by_shares(images.ids, seed=0, validation=0.1, test=0.2)
    assert data.parts["test"] == tuple(images.ids[row] for row in split.test.tolist())
    assert data.is_images
    assert "images of 8x8" in data.description
    stored = np.load(tmp_path / "out/non_label_party/part-00000.npy")
    assert stored.dtype == np.uint8
    assert json.loads((tmp_path / "out/schema.json").read_text())["shards"] == [4, 4, 1]


def test_two_folders_whose_order_does_not_tell_the_label(tmp_path):
    for name, numbers in (("benign", (0, 2, 4, 6)), ("malignant", (1, 3))):
        folder = tmp_path / "train" / name
        folder.mkdir(parents=True)
        for number in numbers:
            (folder / f"{number}.jpg").write_bytes(grey(30 * number, form="JPEG"))
    (tmp_path / "train/malignant/6.jpg").write_bytes(grey(0, form="JPEG"))
    (tmp_path / "train/malignant/notes.txt").write_text("no image")
    prepare_images(raw_images(tmp_path), tmp_path / "out", SMALL)
    labels = PreparedData(tmp_path / "out").party_records(LABEL)
    assert labels.ids == ("0", "1", "2", "3", "4")
    assert labels.labels is not None
    assert labels.labels.tolist() == [0, 1, 0, 1, 0]
    assert (tmp_path / "out/rejects.csv").read_text().splitlines()[1:] == [
        "6,stands in both folders"
    ]


def test_parquet_with_encoded_images(tmp_path):
    path = tmp_path / "images.parquet"
    levels = [10, 90, 130, 200, 255]
    frame = pl.DataFrame(
        {
            "isic_id": [f"i{level}" for level in levels],
            "target": [0, 1, 0, 0, 1],
            "bytes": [grey(level) if level != 130 else b"broken" for level in levels],
            "boxes": [[1], [2], [3], [4], [5]],
        }
    )
    frame.write_parquet(path)
    prepare_images(raw_images(path), tmp_path / "out", SMALL)
    images = PreparedData(tmp_path / "out").party_records(OTHER)
    assert images.ids == ("i10", "i90", "i200", "i255")
    assert [level_of(images, row) for row in range(4)] == [10, 90, 200, 255]
    expected = "3,is no whole image (UnidentifiedImageError)"
    assert (tmp_path / "out/rejects.csv").read_text().splitlines()[1:] == [expected]


def test_too_many_broken_images_stop_the_run(tmp_path, table_and_folder):
    table, folder = table_and_folder
    options = ImageOptions(size=8, negatives_per_positive=None)
    with pytest.raises(DataError, match=r"at most 0\.01 of the rows may be dirty, but 5 of 14"):
        prepare_images(raw_images(folder, table), tmp_path / "out", options)
    assert not (tmp_path / "out").exists()
    assert len((tmp_path / "out.partial/rejects.csv").read_text().splitlines()) == 1 + 5


def test_all_positives_and_so_many_negatives_whatever_their_order():
    entries = [ImageEntry(f"n{row}", int(row % 50 == 0), row) for row in range(500)]
    options = ImageOptions(negatives_per_positive=9)
    kept = kept_entries(entries, options)
    assert sum(entry.label for entry in kept) == 10
    assert len(kept) == 100
    assert [entry.line for entry in kept] == sorted(entry.line for entry in kept)
    assert set(kept_entries(entries[::-1], options)) == set(kept)
    other = ImageOptions(negatives_per_positive=9, split=SplitOptions(seed=1))
    assert set(kept_entries(entries, other)) != set(kept)
    assert kept_entries(entries, ImageOptions(negatives_per_positive=None)) == entries
    assert kept_entries(entries, ImageOptions(negatives_per_positive=100)) == entries


def test_the_kept_negatives_fall_into_all_parts():
    # Were they chosen by the split's own hash, all would test. 400 are kept; the share that tests
    # is 0.2, its standard deviation .02.
    entries = [ImageEntry(f"n{row}", int(row < 100), row) for row in range(2100)]
    kept = kept_entries(entries, ImageOptions(negatives_per_positive=4))
    negatives = [entry.id for entry in kept if not entry.label]
    split = Split.by_shares(negatives, seed=0, validation=0.1, test=0.2)
    assert abs(len(split.test) / 400 - 0.2) < 5 * 0.02


def test_a_run_that_breaks_off_goes_on_behind_the_last_shard(tmp_path, table_and_folder):
    table, folder = table_and_folder
    raw = raw_images(folder, table)
    prepare_images(raw, tmp_path / "whole", SMALL)

    class StopError(Exception):
        pass

    seen = []

    def progress(stage, *, rows, done, total):
        seen.append(rows)
        if rows == 6 and len(seen) == 6:
            raise StopError

    with pytest.raises(StopError):
        prepare_images(raw, tmp_path / "out", SMALL, progress)
    assert not (tmp_path / "out").exists()
    prepare_images(raw, tmp_path / "out", SMALL, progress)
    assert seen[:7] == [1, 2, 3, 4, 5, 6, 5]
    for path in (tmp_path / "whole").rglob("*.*"):
        assert (
            path.read_bytes()
            == (tmp_path / "out" / path.relative_to(tmp_path / "whole")).read_bytes()
        )


def test_wrong_places(tmp_path):
    with pytest.raises(ConfigurationError, match="must be a Parquet file, or a folder with benign"):
        raw_images(tmp_path)
    with pytest.raises(ConfigurationError, match="must be a folder"):
        raw_images(tmp_path / "absent", tmp_path / "train.csv")
    (tmp_path / "train.csv").write_text("name,target\na,0\n")
    with pytest.raises(DataError, match="must name the images in one of the columns"):
        prepare_images(raw_images(tmp_path, tmp_path / "train.csv"), tmp_path / "out", SMALL)
    pl.DataFrame({"isic_id": ["a"], "target": [0]}).write_parquet(tmp_path / "no.parquet")
    with pytest.raises(DataError, match="has 0 of bytes"):
        raw_images(tmp_path / "no.parquet")
    with pytest.raises(ConfigurationError, match="must be at least 1"):
        ImageOptions(size=0)


def test_a_picture_is_squashed_to_a_square():
    # Left half black, right half white: so it stays, whatever the shape.
    picture = Image.new("RGB", (40, 10))
    picture.paste((255, 255, 255), (20, 0, 40, 10))
    target = io.BytesIO()
    picture.save(target, "PNG")
    square = decoded(target.getvalue(), 8)
    assert square.shape == (8, 8, 3)
    assert (square[:, :3] < 30).all()
    assert (square[:, 5:] > 225).all()


@pytest.mark.skipif(not HAM.exists(), reason="../shared/data/ham10000-melanoma-84 is not here")
def test_real_images_equal_those_decoded_elsewhere(tmp_path):
    path = HAM / "ham_isic_84_jpeg.parquet"
    known = np.load(HAM / "ham_isic_84_uint8_1000.npz", allow_pickle=False)
    made = prepare_images(raw_images(path), tmp_path / "out", ImageOptions())
    # 662 positives of 7,496, so 9 times as many negatives are kept: 6,620 in all.
    assert (made.rows, made.rejected) == (6_620, 0)
    data = PreparedData(tmp_path / "out")
    images, labels = data.party_records(OTHER, rows=0.1), data.party_records(LABEL, rows=0.1)
    assert images.ids == labels.ids
    assert abs(len(images) - 662) < 5 * (6620 * 0.09) ** 0.5
    pixels_of, label_of = known["x"], known["y"]
    row_of = {str(name): row for row, name in enumerate(known["isic_id"])}
    both = [(row, row_of[name]) for row, name in enumerate(images.ids) if name in row_of]
    assert len(both) > 30
    assert labels.labels is not None
    for row, other in both:
        assert int(labels.labels[row]) == int(label_of[other])
        # The .npz holds the pixels before JPEG (quality 90), so they differ a little.
        pixels = torch.from_numpy(pixels_of[other]).permute(2, 0, 1) / 255
        assert float((images.features[row] - pixels).abs().mean()) < 0.03
