"""What a request to the console says: parameters of its address, and its JSON. Each has a limit."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from console.answers.clients import SORTS, Order
from console.people.logins import Refused
from console.walks.directories import Window
from schema.paths import ROOT, is_valid

#: Rows of one page at most.
MOST_ROWS = 500
_ROWS = 100
_LONGEST_PATH = 64 << 10
_LONGEST_TEXT = 1000
_ID = range(-(1 << 63), 1 << 63)


def limit(query: Mapping[str, str]) -> int:
    """How many rows are wanted: `limit`."""
    text = query.get("limit", str(_ROWS))
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) >= 1):
        raise Refused(400, f"limit is a number from 1 to {MOST_ROWS}")
    return min(int(text), MOST_ROWS)


def window(values: Mapping[str, Any]) -> Window:
    """Which children of a znode are wanted."""
    names = "prefix", "contains", "after", "from"
    texts = {name: "" if values.get(name) is None else values[name] for name in names}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > _LONGEST_PATH:
            raise Refused(400, f"{name} is a text that is no longer than a path")
    return Window(
        path(values),
        texts["prefix"],
        texts["contains"],
        texts["after"],
        texts["from"],
        _small(values, "offset", -1),
        min(_small(values, "lead", 0), MOST_ROWS),
        limit({name: str(values[name]) for name in ("limit",) if name in values}),
    )


def order(query: Mapping[str, str]) -> Order:
    """Which sessions are wanted, and in which order."""
    sort = query.get("sort", "id")
    if sort not in SORTS:
        raise Refused(400, f"sort is one of {', '.join(SORTS)}")
    after = query.get("after")
    return Order(
        sort,
        query.get("order") == "down",
        query.get("text", "")[:_LONGEST_TEXT],
        None if after is None else session_id(after),
        max(0, _small(query, "offset", 0)),
        limit(query),
    )


def seconds(query: Mapping[str, str]) -> int:
    """How much of the history is wanted."""
    return max(1, _small(query, "seconds", 180))


def _small(values: Mapping[str, Any], name: str, default: int) -> int:
    """A number from 0 on, as such or as text."""
    found = values.get(name, default)
    if type(found) in (int, str):
        text = str(found)
        if found == default or (text.isascii() and text.isdigit() and len(text) < 10):
            return int(text)
    raise Refused(400, f"{name} is a number from 0 on")


def path(values: Mapping[str, Any], name: str = "path") -> str:
    """A znode's path, `/` if there is none."""
    found = values.get(name, ROOT)
    if not isinstance(found, str) or len(found) > _LONGEST_PATH:
        raise Refused(400, f"{name} is no path")
    return found or ROOT


def valid_path(values: Mapping[str, Any]) -> str:
    """The path of a change, which has to be there, and to be one that ZooKeeper takes."""
    found = word(values, "path")
    if len(found) > _LONGEST_PATH or not is_valid(found):
        raise Refused(400, f"{found[:200]!r} is no path that a znode can have")
    return found


def sequential_path(values: Mapping[str, Any]) -> str:
    """The path of a znode whose name gets a number, and may be only that."""
    return valid_path({"path": f"{word(values, 'path')}0"})[:-1]


def session_id(text: str) -> int:
    """A session's id in hexadecimal, as ZooKeeper prints it."""
    try:
        found = int(text, 16)
    except ValueError:
        found = -1 << 65
    if found >= 1 << 63:
        found -= 1 << 64
    if len(text) > 20 or found not in _ID:
        raise Refused(400, f"{text[:40]!r} is no session's id, such as 0x1f")
    return found


def number(values: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number of 64 bits."""
    found = values.get(name, default)
    if type(found) is not int or found not in _ID:
        raise Refused(400, f"{name} is no whole number")
    return found


def version(values: Mapping[str, Any]) -> int:
    """A znode's version; -1 stands for any."""
    found = number(values, "version", -1)
    if not -(1 << 31) <= found < 1 << 31:
        raise Refused(400, "version has 32 bits")
    return found


def word(values: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text."""
    found = values.get(name, default)
    if not isinstance(found, str):
        raise Refused(400, f"{name} is missing, or is no text")
    return found


def data(values: Mapping[str, Any], default: str | None = None) -> bytes:
    """A znode's data, in base64."""
    try:
        return base64.b64decode(word(values, "data", default), validate=True)
    except (ValueError, binascii.Error):
        raise Refused(400, "data is no base64") from None


def document(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a request."""
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refused(400, "the request's body is no JSON") from None
    if not isinstance(found, dict):
        raise Refused(400, "the request's body is no JSON object")
    return found
