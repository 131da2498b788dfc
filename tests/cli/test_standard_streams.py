"""Terminals, pipes and files that take less than UTF-8, or nothing at all."""

import io
import subprocess
import sys

import pytest

from cutlayer.cli.standard_streams import lenient_streams


class Gone(io.TextIOWrapper):
    """A stream that the system refuses to write to."""

    def __init__(self, error):
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.error = error

    def write(self, text):
        raise self.error


def written(text, encoding, monkeypatch):
    """The bytes that reach a stream of this encoding."""
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding=encoding, newline="\n"))
    with lenient_streams():
        print(text)
    return kept.getvalue()


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", "● ≤ 0.5 ± 0.1 – é ☃\n".encode()),
        ("ascii", b"* <= 0.5 +- 0.1 - \\xe9 \\u2603\n"),
        ("latin-1", b"* <= 0.5 \xb1 0.1 - \xe9 \\u2603\n"),  # has the plus-minus and the accent
        ("cp1252", b"* <= 0.5 \xb1 0.1 \x96 \xe9 \\u2603\n"),  # and the dash
        ("cp437", b"* \xf3 0.5 \xf1 0.1 - \x82 \\u2603\n"),  # and the at-most sign
    ],
)
def test_a_sign_that_the_encoding_lacks_is_written_plainly(encoding, expected, monkeypatch):
    assert written("● ≤ 0.5 ± 0.1 – é ☃", encoding, monkeypatch) == expected


def test_a_byte_of_a_file_name_is_escaped_even_in_utf_8(monkeypatch):
    name = b"h\xff.csv".decode("utf-8", "surrogateescape")
    assert written(name, "utf-8", monkeypatch) == b"h\\xff.csv\n"


@pytest.mark.parametrize(
    ("error", "noted"),
    [
        (OSError(28, "No space left on device"), True),
        (OSError(5, "Input/output error"), True),
        (BrokenPipeError(32, "Broken pipe"), False),
    ],
)
def test_a_stream_that_is_gone_goes_silent(error, noted, monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr(sys, "stdout", Gone(error))
    monkeypatch.setattr(sys, "stderr", said)
    with lenient_streams():
        for _ in range(3):
            print("step")
    assert said.getvalue().count("Standard output cannot be written") == noted
    assert (error.strerror in said.getvalue()) == noted


def test_the_streams_are_as_before_afterwards():
    before = sys.stdout, sys.stderr
    with pytest.raises(SystemExit), lenient_streams():
        sys.exit(2)
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", ">&-", "2>&-", ">/dev/full"])
def test_no_file_of_a_command_gets_the_number_of_a_closed_stream(closed, tmp_path):
    """Else a warning that a library writes to descriptor 2 ends up in a journal."""
    program = (
        "import sys; from cutlayer.cli.standard_streams import lenient_streams\n"
        "with lenient_streams():\n"
        "    file = open('journal', 'w'); print(file.fileno(), file=file); print('shown')\n"
        "    print('wrong', file=sys.stderr)"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, program],
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0
    assert int((tmp_path / "journal").read_text()) > 2
