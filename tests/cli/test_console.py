"""What is shown: text that no terminal obeys, whatever it is printed with."""

import subprocess
import sys

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from cutlayer.cli.console import screen
from cutlayer.cli.doctor_command import table_of
from cutlayer.cli.exit_status import complain
from cutlayer.operation.checkup import fault

BAD = "\x1b[2J\x1b]0;owned\x07\r\u202e\u200b\x9b1m\x7fend"
SHOWN = "\\x1b[2J\\x1b]0;owned\\x07\\r\\u202e\\u200b\\x9b1m\\x7fend"
HIDDEN = set("\x1b\x07\r\u202e\u200b\x9b\x7f")


def table():
    made = Table.grid()
    made.add_row(f"cell {BAD}")
    return made


WAYS = {
    "text": lambda console: console.print(BAD, soft_wrap=True),
    "styled": lambda console: console.print(BAD, style="bold red", soft_wrap=True),
    "Text": lambda console: console.print(Text(f"ESC \x1b[2J{BAD}"), soft_wrap=True),
    "table": lambda console: console.print(table()),
    "doctor": lambda console: console.print(table_of([fault("address", BAD, BAD)])),
    "value": lambda console: console.print({"value": BAD}),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_a_terminal_obeys_reaches_it(way, capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    WAYS[way](screen())
    out = capsys.readouterr().out
    assert not HIDDEN & set(out), repr(out)
    assert "end" in out
    if way in ("text", "styled"):
        assert out == SHOWN + "\n"


def test_our_own_colours_and_progress_lines_still_reach_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    console = screen()
    assert isinstance(console, Console)
    console.print("red", style="red")
    with Progress(TextColumn("{task.description}"), console=console) as progress:
        progress.add_task(f"x{BAD}", total=1)
    out = capsys.readouterr().out
    assert "\x1b[31mred\x1b[0m" in out
    assert "\x1b[?25l" in out  # rich hides the cursor
    assert "\x1b[2J" not in out
    assert "\\x1b[2J" in out


def test_a_complaint_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        complain(f"label party: broke ({BAD}\nlabel party: all is well)", 1)
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == f"label party: broke ({SHOWN}\\nlabel party: all is well)\n"


PROGRAM = """
import logging, sys, threading, warnings
from cutlayer.cli.console import escape_reports
escape_reports()
bad = {bad!r}
logging.getLogger("asyncio").error("log %s", bad)
warnings.warn("warning " + bad)
def fail(): raise ValueError("thread " + bad)
thread = threading.Thread(target=fail)
thread.start()
thread.join()
raise ValueError("main " + bad)
"""


def test_tracebacks_warnings_and_loggers_are_escaped_too():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(bad=BAD)],
        capture_output=True,
        check=False,
    )
    said = done.stderr.decode()
    assert done.returncode == 1
    assert not HIDDEN & set(said), repr(said)
    for kind in ("log", "warning", "thread", "main"):
        assert f"{kind} {SHOWN}" in said
    assert "Traceback" in said
