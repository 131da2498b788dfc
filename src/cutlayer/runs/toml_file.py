"""A TOML file as keys and values, whatever editor saved it."""

import codecs
import tomllib
from pathlib import Path
from typing import Final

from cutlayer.errors import ConfigurationError
from cutlayer.runs.written_values import parse_toml

_OTHER_ENCODINGS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",  # begins as UTF-16's mark does, so it goes first
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def read_toml(path: Path) -> dict[str, object]:
    """The file's keys and values. A UTF-8 byte order mark at its start is skipped.

    Raises:
        FileNotFoundError: there is no such file.
        ConfigurationError: the file cannot be read, is not UTF-8, or is no TOML; the message names
            file, fault and fix.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigurationError(
            f"{path} is no TOML file that can be read ({error.strerror or error}). Check the path "
            "and its rights."
        ) from error
    try:
        return parse_toml(_text(data, path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is no TOML file ({error}).") from error


def _text(data: bytes, path: Path) -> str:
    """The bytes as text; refuses another encoding than UTF-8 by name."""
    kind = next((name for mark, name in _OTHER_ENCODINGS.items() if data.startswith(mark)), None)
    if kind is None and b"\0" in data:
        kind = "UTF-16 or no text at all"
    if kind is not None:
        raise ConfigurationError(
            f"{path} must be UTF-8 text, but is {kind}. Save it as UTF-8 in the editor, or convert "
            "it: iconv -f UTF-16 -t UTF-8."
        )
    try:
        return data.decode().lstrip("\ufeff")  # a mark, or those of several editors
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{path} must be UTF-8 text, but line {line} holds the byte "
            f"0x{data[error.start]:02X}. Save it as UTF-8 in the editor, or convert it: "
            "iconv -f WINDOWS-1252 -t UTF-8."
        ) from error
