"""JSON as Jackson writes it with INDENT_OUTPUT, so that it can be compared by eye.

Pure. The same text as `json.dumps(value, indent=2, separators=(",", " : "))`.
"""

import json
from collections.abc import Iterator
from itertools import islice, repeat
from typing import Any

from proxy.state.pause import Pause

_INDENT = "  "
# Pieces of text that are encoded together: 1 ms.
_TOGETHER = 2048
_text_of = json.JSONEncoder().encode


def encode(value: Any, pause: Pause) -> list[bytes]:
    """A value of dicts, lists and scalars as UTF-8, in parts of about 64 KiB."""
    parts: list[bytes] = []
    pieces = _pieces(value, "\n")
    while some := "".join(islice(pieces, _TOGETHER)):
        parts.append(some.encode())
        pause()
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
