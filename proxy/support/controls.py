"""What of others' text may get into no log, span or terminal: too much of it, and control characters.

Pure.
"""

# C0, DEL, C1; what ends a line, is invisible, or changes the direction of text. First and last of each range.
_RANGES = (
    (0, 0x1F),
    (0x7F, 0x9F),
    (0x61C, 0x61C),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
)
#: Their numbers.
CONTROLS = frozenset(code for first, last in _RANGES for code in range(first, last + 1))

_ESCAPES = {code: ascii(chr(code))[1:-1] for code in CONTROLS}


def escaped(text: str) -> str:
    """A text whose control characters, line feeds included, are written as escapes."""
    return text.translate(_ESCAPES)


def shortened(text: str, most: int) -> str:
    """The first `most` characters of a client's text, and dots in place of the rest."""
    return text if len(text) <= most else f"{text[:most]}..."
