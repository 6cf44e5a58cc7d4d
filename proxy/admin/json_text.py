"""JSON as Jackson writes it with INDENT_OUTPUT, so that it can be compared by eye.

Pure. The same text as `json.dumps(value, indent=2, separators=(",", " : "))`.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Any

from proxy.state.pause import Pause

_INDENT = "  "
# Pieces of text that are encoded together, and their characters: 1 ms.
_TOGETHER = 2048
_LONGEST = 1 << 16
_text_of = json.JSONEncoder().encode


def encode(value: Any, pause: Pause) -> list[bytes]:
    """A value of dicts, lists and scalars as UTF-8, in parts of about 64 KiB."""
    return _in_parts(_pieces(value, "\n"), pause)


def encode_lines(name: str, lines: Iterable[str], pause: Pause) -> list[bytes]:
    """An object whose one member is the text of some lines, without spaces, as Keeper writes it; in parts."""
    texts = (_text_of(line)[1:-1] for line in lines if line)
    return _in_parts(chain((f'{{{_text_of(name)}:"',), texts, ('"}',)), pause)


def _in_parts(pieces: Iterator[str], pause: Pause) -> list[bytes]:
    parts: list[bytes] = []
    some: list[str] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        if len(some) == _TOGETHER or size >= _LONGEST:
            parts.append("".join(some).encode())
            some, size = [], 0
            pause()
    if some:
        parts.append("".join(some).encode())
    return parts


def _pieces(value: Any, line: str) -> Iterator[str]:
    """The text of a value, none of it empty. `line`: a line break and the indentation of where it stands."""
    if not isinstance(value, dict | list) or not value:
        yield _text_of(value)
        return
    inner = line + _INDENT
    is_mapping = isinstance(value, dict)
    before = ("{" if is_mapping else "[") + inner
    # None is no key here: it stands for the lack of one.
    for key, item in value.items() if isinstance(value, dict) else zip(repeat(None), value, strict=False):
        if key is not None:
            before += f"{_text_of(str(key))} : "
        if isinstance(item, dict | list):
            yield before
            yield from _pieces(item, inner)
        else:
            yield before + _text_of(item)
        before = f",{inner}"
    yield line + ("}" if is_mapping else "]")
