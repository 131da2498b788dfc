import sys
import unicodedata

import pytest

from cutlayer.escaping import escaped

# What a terminal obeys, what turns a line, what hides: each with the escape that Python writes.
OBEYED = {
    "\0": "\\x00",
    "\a": "\\x07",
    "\b": "\\x08",
    "\v": "\\x0b",
    "\f": "\\x0c",
    "\r": "\\r",
    "\x1b]0;title\x07": "\\x1b]0;title\\x07",
    "\x1b[2J": "\\x1b[2J",
    "\x7f": "\\x7f",
    "\x85": "\\x85",
    "\x9b31m": "\\x9b31m",
    "\xad": "\\xad",
    "\u061c": "\\u061c",
    "\u200b": "\\u200b",
    "\u200d": "\\u200d",
    "\u200f": "\\u200f",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
    "\u202e": "\\u202e",
    "\u2066": "\\u2066",
    "\u3164": "\\u3164",
    "\ufeff": "\\ufeff",
    "\U000e0041": "\\U000e0041",
    "\U000e0100": "\\U000e0100",
    "\ud800": "\\ud800",
    chr(0xDCFF): "\\xff",
}


@pytest.mark.parametrize("text", OBEYED)
@pytest.mark.parametrize("lines", [True, False])
def test_what_does_not_show_as_itself_is_escaped(text, lines):
    assert escaped(f"<{text}>", lines=lines) == f"<{OBEYED[text]}>"


def test_lines_stay_only_where_they_may():
    assert escaped("a\n\tb") == "a\\n\\tb"
    assert escaped("a\n\tb", lines=True) == "a\n\tb"


@pytest.mark.parametrize(
    "text", ["", "plain", "é ☃ ≤ ●", "日本", "\N{NO-BREAK SPACE}", "e\u0301", "C:\\x1b", "👍🏽"]
)
def test_what_shows_as_itself_stays(text):
    assert escaped(text) == text
    assert escaped(escaped(text)) == text


def test_no_control_or_format_character_of_unicode_is_left():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    left = escaped(every)
    assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & {unicodedata.category(sign) for sign in left}
