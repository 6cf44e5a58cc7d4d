"""How results are printed: text for people, or one JSON document (`--json`)."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from codec.longs import hex64
from proxy.support.controls import CONTROLS

_IDS = ("czxid", "mzxid", "pzxid", "ephemeralOwner")
_TIMES = ("ctime", "mtime")


class CommandFailed(Exception):
    """A command cannot do what was asked; the message says why and what to do. Exit code 1."""


class WrongUsage(CommandFailed):
    """The command line is wrong in a way that its parser does not find. Exit code 2."""


class Output(NamedTuple):
    """The same result twice."""

    data: Any  # for JSON
    lines: Sequence[str]  # for people

    def text(self, as_json: bool) -> str:
        """What goes to stdout, without the last newline."""
        if as_json:
            return json.dumps(self.data, indent=2)
        return "\n".join(map(one_line, self.lines))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of aligned columns; nothing but the head if there are no rows."""
    cells = [tuple(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


_ESCAPES = {code: ascii(chr(code))[1:-1] for code in CONTROLS if chr(code) not in "\t\n"}


def visible(text: str) -> str:
    """A text whose control characters are escaped: on a terminal they could do anything."""
    return text.translate(_ESCAPES)


def one_line(text: str) -> str:
    """A text without line feeds: a client's path or user must not look like another line."""
    return text.replace("\n", "\\n")


def show(text: str, *, flush: bool = False) -> None:
    """Print a text; on a terminal without control characters."""
    print(visible(text) if sys.stdout.isatty() else text, flush=flush)


def say(text: str) -> None:
    """Print what is no result: to standard error, and without control characters."""
    print(visible(text), file=sys.stderr, flush=True)


def counted(count: int, what: str) -> str:
    """A number of things."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def stat_lines(stat: Mapping[str, int]) -> list[str]:
    """A Stat for people, by ZooKeeper's names: ids in hexadecimal, times with their dates."""
    return [f"{name} = {_field(name, value)}" for name, value in stat.items()]


def _field(name: str, value: int) -> str:
    if name in _IDS:
        return hex64(value)
    return f"{value} ({date(value)})" if name in _TIMES else str(value)


def date(clock: int) -> str:
    """Milliseconds since 1970 as a date; as they are if there is no such date."""
    try:
        return datetime.fromtimestamp(clock / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return str(clock)


def size(count: int) -> str:
    """Bytes for people."""
    if count < 10_000:
        return f"{count} B"
    if count < 10_000_000:
        return f"{count / 1000:.0f} kB"
    return f"{count / 1_000_000:.0f} MB"
