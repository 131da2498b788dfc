"""Escaping: a text from elsewhere as a screen or log may show it.

A status of the peer's software, an id, the name of a column or an address of a configuration may
hold characters that a terminal obeys, that turn the direction of a line, that hide, or that begin a
line which looks like one of ours. Whoever shows a text escapes it, wherever it came from.
"""

import unicodedata

_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, formats (direction, zero width), surrogates, private, unassigned, line separators."""
_UNSEEN = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Letters and marks without a shape, in which text can be hidden as well."""


def escaped(text: str, *, lines: bool = False) -> str:
    r"""The text, with an escape for each character that does not show as itself.

    >>> escaped("done\x1b[2J\u202egpj\nlabel party: all is well")
    'done\\x1b[2J\\u202egpj\\nlabel party: all is well'

    Args:
        text: from anywhere.
        lines: whether it may have several lines, and tabs in them.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(sign if sign in kept or _is_plain(sign) else escape(sign) for sign in text)


def escape(sign: str) -> str:
    """One character as an escape of ASCII."""
    is_byte = "\udc80" <= sign <= "\udcff"  # how Python keeps a byte that is no UTF-8
    if is_byte:
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("unicode_escape").decode("ascii")


def _is_plain(sign: str) -> bool:
    """Whether a character shows as itself."""
    return unicodedata.category(sign) not in _CATEGORIES and sign not in _UNSEEN
