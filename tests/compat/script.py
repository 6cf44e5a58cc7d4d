"""What a differential test does: steps over numbered sessions ("slots"), and the requests in them.

A script is a list of steps. Every step and request is a NamedTuple whose repr is Python, so that a shrunk
script can be pasted into `cases`. Paths are relative to a root node that the runner makes for each run: "" is
that root, "/a" a child of it. A path that starts with "@" is sent as it stands, without the "@"; one that
starts with "~" lies where the quotas of that root and of what is below it do. `since` of SetWatches is "last"
(seen before the reconnect), "zero" or "future".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lab.oracle.requests import Request


class Open(NamedTuple):
    """A new session in `slot`; what the slot held before is left to itself."""

    slot: int


class Reopen(NamedTuple):
    """Attach again to the slot's session, over a new connection; the old one may still be open."""

    slot: int
    good_password: bool = True
    ahead: bool = False


class Close(NamedTuple):
    """closeSession, and wait for the server to close."""

    slot: int


class Drop(NamedTuple):
    """Close the socket without closing the session."""

    slot: int


class Expire(NamedTuple):
    """Fall silent with a short timeout until the session is gone."""

    slot: int


class Call(NamedTuple):
    """Send all requests at once on the slot's connection and read all replies."""

    slot: int
    requests: tuple[Request, ...]


class Handshake(NamedTuple):
    """A fresh connection outside the slots: send these bytes, then the end of the stream; read until closed.

    Used for malformed connect requests. `half_close` False keeps the sending side open: then the server must
    close unasked."""

    data: bytes
    half_close: bool = False


class Junk(NamedTuple):
    """Send bytes that the server must answer by closing."""

    slot: int
    data: bytes


Step = Open | Reopen | Close | Drop | Expire | Call | Handshake | Junk
Script = list[Step]


def call(slot: int, *requests: Request) -> Call:
    """Return a step that sends `requests` at once."""
    return Call(slot, requests)


_QUOTAS = "/zookeeper/quota"


def rooted(path: str | None, root: str) -> str | None:
    """Return the path to send: below `root` or its quotas, or literal after "@"."""
    if path is None:
        return None
    if path.startswith("~"):
        return _QUOTAS + root + path[1:]
    return path[1:] if path.startswith("@") else root + path


def unrooted(path: str | None, root: str) -> str | None:
    """Return a server's path as scripts write it; the inverse of `rooted`."""
    if path is None:
        return None
    if path.startswith(_QUOTAS + root):
        return "~" + path[len(_QUOTAS + root) :]
    return path[len(root) :] if path.startswith(root) else "@" + path


def resolved(request: Request, root: str, zxids: Mapping[str, int]) -> Request:
    """Return the request with the paths to send, and the zxid that SetWatches.since stands for."""
    changed: dict[str, Any] = {}
    for name, value in request._asdict().items():
        if name in ("path", "prefix"):
            changed[name] = rooted(value, root)
        elif name == "ops":
            changed[name] = tuple(resolved(part, root, zxids) for part in value)
        elif name == "since":
            changed[name] = zxids[value]
        elif name in _WATCHED and isinstance(value, tuple):
            changed[name] = tuple(rooted(path, root) for path in value)
    return request._replace(**changed)


_WATCHED = ("data", "exist", "child", "persistent", "recursive")
