"""Raw images as they are downloaded: a folder and a table, two folders, or a Parquet file."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError

from cutlayer.data.party_table import LABEL_PARTY
from cutlayer.data.tables.file_message import FileMessage, listing
from cutlayer.data.tables.parquet_table import is_parquet
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.preparation.any_table import TableColumns, table
from cutlayer.preparation.raw_table import column_names
from cutlayer.preparation.rejects import Reject

CLASSES: Final[Mapping[str, int]] = {"benign": 0, "malignant": 1}
"""Names of the two folders, and their labels."""
ID_COLUMNS: Final = ("image_name", "isic_id", "image_id", "id")
LABEL: Final = "target"

_ENDINGS: Final = (".jpg", ".jpeg", ".png")
_BYTES_AT_ONCE: Final = 1 << 26
_ROWS_AT_ONCE: Final = (16, 4096)
_TABLE_BYTES: Final = 1 << 22


@dataclass(frozen=True)
class ImageEntry:
    """One image that is named, with its label; it is not opened yet."""

    id: str
    label: int
    line: int
    """Line of the table or row of the Parquet file; place in the sorted listing of a folder."""


class RawImages(Protocol):
    """Named images of one download."""

    @property
    def path(self) -> Path:
        """What is fingerprinted: the table, the Parquet file, or the folder."""
        ...

    def entries(self) -> tuple[list[ImageEntry], list[Reject]]:
        """All images, and rows that name none."""
        ...

    def files(self, entries: list[ImageEntry]) -> Iterator[bytes | None]:
        """The encoded images, in the order of ``entries``; ``None`` where there is no file."""
        ...


def raw_images(images: Path, label_table: Path | None = None) -> RawImages:
    """Find out in which of three forms the images come.

    Args:
        images: with a table, the folder of the files (``ISIC_0015719.jpg``); without, a Parquet
            file with an id, ``target`` and one column of bytes, or a folder that holds ``benign``
            and ``malignant``, directly or in its folder ``train``.
        label_table: CSV with ``image_name`` and ``target``; other columns are not looked at.

    Raises:
        ConfigurationError: it is none of these.
        DataError: a file is missing or damaged.
    """
    if label_table is not None:
        if not images.is_dir():
            raise ConfigurationError(f"--images: {images} must be a folder.")
        return TabledImages(label_table, images)
    if images.is_file():
        return ParquetImages(images)
    for root in (images / "train", images):
        if all((root / name).is_dir() for name in CLASSES):
            return SortedImages(root)
    raise ConfigurationError(
        f"--images: {images} must be a Parquet file, or a folder with benign and malignant in it; "
        "for a folder of files give the CSV with image_name and target as --table."
    )


@dataclass(frozen=True)
class TabledImages:
    """A folder of image files, and a CSV that names and labels them."""

    path: Path
    folder: Path

    def entries(self) -> tuple[list[ImageEntry], list[Reject]]:
        """One for each sound row of the table."""
        return _named_images(self.path)

    def files(self, entries: list[ImageEntry]) -> Iterator[bytes | None]:
        """Files called by the id, inside of the folder only."""
        for entry in entries:
            yield _file_named(self.folder, entry.id)


@dataclass(frozen=True)
class SortedImages:
    """Two folders, ``benign`` and ``malignant``; an image is called by its file without ending.

    Images are listed by name, both folders together, or their order would tell the label.
    """

    path: Path

    def entries(self) -> tuple[list[ImageEntry], list[Reject]]:
        """One for each image file; a name that stands in both folders is a reject."""
        labels: dict[str, set[int]] = {}
        for folder, label in CLASSES.items():
            for file in (self.path / folder).iterdir():
                if file.suffix.lower() in _ENDINGS:
                    labels.setdefault(file.stem, set()).add(label)
        found: list[ImageEntry] = []
        rejects: list[Reject] = []
        for line, (name, known) in enumerate(sorted(labels.items()), start=1):
            if len(known) > 1:
                rejects.append(Reject(line, "stands in both folders"))
            else:
                found.append(ImageEntry(name, known.pop(), line))
        return found, rejects

    def files(self, entries: list[ImageEntry]) -> Iterator[bytes | None]:
        """From the folder of the label."""
        folders = {label: self.path / name for name, label in CLASSES.items()}
        for entry in entries:
            yield _file_named(folders[entry.label], entry.id)


class ParquetImages:
    """A Parquet file with an id, ``target``, and one column of encoded images."""

    def __init__(self, path: Path) -> None:
        self.path = path
        message = FileMessage(LABEL_PARTY, path)
        if not is_parquet(path, message):
            raise message.error("must be Parquet with a column of JPEG bytes.")
        try:
            kinds = pl.read_parquet_schema(path)
            rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
        except (PolarsError, PanicException, OSError) as error:
            raise _damaged(path, error) from error
        binary = [name for name, kind in kinds.items() if kind == pl.Binary]
        if len(binary) != 1:
            raise message.error(
                f"must have one column of JPEG bytes, but has {len(binary)} of bytes: "
                f"{listing(binary)}."
            )
        self._place = list(kinds).index(binary[0])
        least, most = _ROWS_AT_ONCE
        fitting = _BYTES_AT_ONCE * rows // path.stat().st_size
        self._at_once = min(max(fitting, least), most)

    def entries(self) -> tuple[list[ImageEntry], list[Reject]]:
        """One for each row."""
        return _named_images(self.path)

    def files(self, entries: list[ImageEntry]) -> Iterator[bytes | None]:
        """A few rows of the file at a time."""
        held, first = pl.Series(dtype=pl.Binary), 0
        for entry in entries:
            row = entry.line - 1
            if row >= first + len(held):
                first, held = row, self._column(row)
            yield held[row - first]

    def _column(self, first: int) -> pl.Series:
        """A few encoded images from a row on."""
        try:
            lazy = pl.scan_parquet(self.path, glob=False).slice(first, self._at_once)
            return lazy.select(pl.nth(self._place)).collect().to_series()
        except (PolarsError, PanicException, OSError) as error:
            raise _damaged(self.path, error) from error


def decoded(data: bytes | None, size: int) -> NDArray[np.uint8] | str:
    """An encoded image as RGB, squashed to a square with Lanczos.

    Args:
        data: JPEG or PNG; ``None`` where there is no file.
        size: height and width, in pixels.

    Returns:
        uint8, shape ``(size, size, 3)``; or why there is no image.

    Raises:
        ConfigurationError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ConfigurationError(
            "Images need Pillow. Install it with: pip install 'cutlayer[images]'"
        ) from error
    if data is None:
        return "has no image file"
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            # Large JPEGs are decoded at a fraction of their size, but at three times ours or more.
            image.draft("RGB", (3 * size, 3 * size))
            square = image.convert("RGB").resize((size, size), Image.Resampling.LANCZOS)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return f"is no whole image ({type(error).__name__})"
    return np.asarray(square, dtype=np.uint8)


def _file_named(folder: Path, name: str) -> bytes | None:
    """The file of this name in this folder, whatever its ending."""
    if Path(name).name != name:  # "../x" would lead out of the folder
        return None
    for ending in _ENDINGS:
        path = folder / f"{name}{ending}"
        if path.is_file():
            return path.read_bytes()
    return None


def _named_images(path: Path) -> tuple[list[ImageEntry], list[Reject]]:
    """Ids and labels of a table; an id that stands in it twice counts once."""
    names = column_names(path)
    id_column = next((name for name in ID_COLUMNS if name in names), None)
    if id_column is None:
        raise DataError(f"{path} must name the images in one of the columns {listing(ID_COLUMNS)}.")
    unused = tuple(name for name in names if name not in (id_column, LABEL))
    raw = table(path, TableColumns(LABEL, id_column, drop=unused))
    source = raw.open(_TABLE_BYTES)
    found: dict[str, ImageEntry] = {}
    rejects: list[Reject] = []
    for block in source.blocks(source.start):
        rows = raw.layout.typed(block)
        rejects += rows.rejects
        bad = {one.line for one in rows.rejects}
        lines = [int(line) for line in block.lines if line not in bad]
        for name, label, line in zip(rows.ids, rows.labels, lines, strict=True):
            if name in found:
                rejects.append(Reject(line, "the id stands above already"))
            else:
                found[name] = ImageEntry(name, label, line)
    return list(found.values()), rejects


def _damaged(path: Path, error: BaseException) -> DataError:
    """The error for a Parquet file that polars cannot read."""
    why = str(error).partition("\n")[0][:200] or type(error).__name__
    return DataError(f"{path} must be a whole Parquet file, but: {why}. Write it again.")
