"""The words of a line in `zketcd shell`, quoted as in a POSIX shell, and how one is completed."""

import re
from typing import NamedTuple

_BLANKS = " \t\r\n"
_ESCAPE = "\\"
_COMMENT = "#"
_SPECIAL = {"": re.compile(r"[\s'\"\\#]"), '"': re.compile(r'["\\]')}


class Line(NamedTuple):
    """A line as far as it is written."""

    done: list[str]  # the words before the last
    last: str | None  # None: behind a blank no word has begun
    open: str  # the quote or comment that it ends in
    escape: str  # the backslash that it ends with, which waits for its character


def split(text: str) -> list[str]:
    """The words of a whole line. Raises ValueError."""
    line = read(text)
    if line.escape:
        raise ValueError("No escaped character")
    if line.open not in ("", _COMMENT):
        raise ValueError("No closing quotation")
    return line.done if line.last is None else [*line.done, line.last]


def read(text: str) -> Line:
    """Take a line apart; a `#` that begins a word begins a comment."""
    done: list[str] = []
    last: str | None = None
    quote = escape = ""
    for each in text:
        if escape:
            kept = escape if quote and each not in (quote, _ESCAPE) else ""
            last, escape = f"{last or ''}{kept}{each}", ""
        elif each == _ESCAPE and quote != "'":
            escape = each
        elif quote and each == quote:
            quote = ""
        elif not quote and each in "'\"":
            quote, last = each, last or ""
        elif not quote and each in _BLANKS:
            if last is not None:
                done.append(last)
            last = None
        elif each == _COMMENT and last is None:
            return Line(done, None, _COMMENT, "")
        else:
            last = f"{last or ''}{each}"
    return Line(done, last, quote, escape)


def continued(line: Line, rest: str) -> str | None:
    """What to add to a line so that its last word goes on with a text; None if nothing does that."""
    if line.open == _COMMENT:
        return None
    if not line.escape:
        return _quoted(rest, line.open)
    if not rest or (line.open and rest[0] not in (line.open, _ESCAPE)):
        return None
    return rest[0] + _quoted(rest[1:], line.open)


def _quoted(text: str, quote: str) -> str:
    if quote == "'":
        return text.replace("'", r"'\''")
    return _SPECIAL[quote].sub(r"\\\g<0>", text)
