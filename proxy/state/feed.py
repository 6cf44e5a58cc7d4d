"""What requests change, as lines: JSON, or server-sent events. Pure.

There is one line for each change of a znode, in the order of the log. Its `id` names the place behind it,
where a reader that broke off goes on. A line with nothing but an `id`: nothing else has changed up to there.
"""

import base64
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from codec.constants import Perms
from codec.operation_names import constant_name
from proxy.state.auth.scheme import Identities
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.recording import NONE, Recorded, What
from proxy.state.rights import permits
from schema.entry import Kind, RequestFields
from schema.followed import followed_after
from schema.paths import ROOT

#: What a change of a znode is, by `What`, in the words of all tables of changes.
WORDS = ("created", "deleted", "set", "setACL", "set")
# Looking up an enum's member costs more than using it.
_CLIENT, _FOLLOWED = int(Kind.CLIENT), int(Kind.FOLLOWED)
_ACL, _DELETED, _STAT = What.ACL, What.DELETED, What.STAT
_ALL = 1 << 62  # changes of one request
_ID = re.compile(r"(0x[0-9a-f]{1,16}|[0-9]{1,19})(?:\.([0-9]{1,9}))?", re.ASCII)
_OF_A_CHANGE = 400  # bytes in memory, besides its path and data
_PIECE = 3 << 13  # bytes or characters of data that are encoded together; base64 has four for three
EVENTS = "text/event-stream"


class Id(NamedTuple):
    """The place behind the first `part` changes of a request, or behind all of them."""

    zxid: int
    part: int = _ALL

    @property
    def whole(self) -> int:
        """The last zxid of which nothing is missing."""
        return self.zxid if self.part == _ALL else self.zxid - 1

    def __str__(self) -> str:
        return f"0x{self.zxid:x}" if self.part == _ALL else f"0x{self.zxid:x}.{self.part}"


def id_of(text: str) -> Id:
    """A place as a line names it, or a zxid. Raises ValueError."""
    found = _ID.fullmatch(text.lower())
    zxid = int(found[1], 0 if found[1].startswith("0x") else 10) if found else _ALL
    if found is None or zxid >= 1 << 63 or found[2] == "0":
        raise ValueError(f"{text[:80]!r} is neither a zxid, such as 0x500000123, nor the id of a line")
    return Id(zxid, int(found[2]) if found[2] else _ALL)


class Made(NamedTuple):
    """What one request has changed of znodes, in order."""

    zxid: int
    time: int  # milliseconds since 1970
    operation: str
    changes: tuple[Recorded, ...]
    #: Of a tree that follows another: the zxid before. Within the changes there is no place where a reader
    #: could go on elsewhere: the other tree, and other copies of it, have them in another order.
    follows: int | None = None

    def place(self, part: int) -> Id:
        """Where a reader goes on that has the first `part` changes."""
        if part == len(self.changes):
            return Id(self.zxid)
        return Id(self.zxid, part) if self.follows is None else Id(self.follows)

    def left(self, after: Id) -> range:
        """The places of the changes that a reader lacks that is at a place."""
        count = len(self.changes)
        if self.zxid != after.zxid:
            return range(count if self.zxid < after.zxid else 0, count)
        return range(min(after.part, count) if after.part == _ALL or self.follows is None else 0, count)


def made_by(
    request: RequestFields, zxid: int, time: int, recorded: Collection[Recorded], pause: Pause = NO_PAUSE
) -> Made | None:
    """What the request that was executed last has changed; None if no znode.

    A tree that follows another gets its Stats too: of these a line shows the version.
    """
    changes = [
        each
        for each in pause.each(recorded)
        if each.path and (each.what is not _STAT or each.before != each.after)
    ]
    if not changes:
        return None
    follows = followed_after(request.body) if request.kind == _FOLLOWED else None
    return Made(zxid, time, request_name(request), tuple(changes), follows)


def size_of(made: Made, pause: Pause = NO_PAUSE) -> int:
    """Bytes in memory, about."""
    size = 0
    for each in pause.each(made.changes):
        size += _OF_A_CHANGE + len(each.path)
        if each.data:
            size += len(each.data)
        if each.data_before:
            size += len(each.data_before)
    return size


class Selection(NamedTuple):
    """Which changes a reader gets, and in which form."""

    path: str  # and all below it
    data: bool
    identities: Identities  # only changes of znodes that these may read
    events: bool  # server-sent events

    def lines(self, made: Made, after: Id) -> Iterator[tuple[Id, bytes]]:
        """The lines of a request's changes behind a place, each with its id."""
        for here, pieces in self.pieces(made, made.left(after)):
            yield here, b"".join(pieces)

    def pieces(self, made: Made, places: Iterable[int]) -> Iterator[tuple[Id, Iterator[bytes]]]:
        """The lines of the changes at these places, in pieces, which are made one by one.

        Data of 1 MB take 6 MB.
        """
        below = self.path if self.path == ROOT else self.path + "/"
        for place in places:
            each = made.changes[place]
            if (each.path == self.path or each.path.startswith(below)) and permits(
                each.rights, Perms.READ, self.identities
            ):
                here = made.place(place + 1)
                yield here, self._pieces(here, made, each)

    def mark(self, here: Id) -> bytes:
        """Nothing else has changed up to a place."""
        return f"id: {here}\n\n".encode() if self.events else _json({"id": str(here)}) + b"\n"

    def last(self, here: Id, why: str) -> bytes:
        """The end: why, and where to go on."""
        line = self._line(here, {"end": why})
        return b"event: end\n" + line if self.events else line

    def _pieces(self, here: Id, made: Made, change: Recorded) -> Iterator[bytes]:
        data = written(change) if self.data else None
        if data is None or len(data) <= _PIECE:
            yield self._line(here, row(made, change, data=self.data))
            return
        empty = self._line(here, row(made, change, data=False) | {"data": "", "data_base64": ""})
        before, after = empty.split(_NO_DATA)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            yield before + b',"data":null,"data_base64":"'
            for place in range(0, len(data), _PIECE):
                yield base64.b64encode(data[place : place + _PIECE])
            yield b'"' + after
        else:
            yield before + b',"data":"'
            for place in range(0, len(text), _PIECE):
                yield json.dumps(text[place : place + _PIECE])[1:-1].encode()
            yield b'","data_base64":null' + after

    def _line(self, here: Id, members: Mapping[str, Any]) -> bytes:
        line = _json({"id": str(here), **members})
        return b"id: %b\ndata: %b\n\n" % (str(here).encode(), line) if self.events else line + b"\n"


def row(made: Made, change: Recorded, *, data: bool) -> dict[str, Any]:
    """A change. The versions are those of the ACL for setACL; null: there is no znode."""
    found = {
        "zxid": made.zxid,
        "time": made.time,
        "operation": made.operation,
        "change": WORDS[change.what],
        "path": change.path,
        "version_before": None if change.before == NONE else change.before,
        "version_after": None if change.after == NONE else change.after,
    }
    if data:
        found |= data_members(written(change))
    return found


def written(change: Recorded) -> bytes | None:
    """The data that a change has written."""
    return None if change.what is _DELETED or change.what is _ACL else change.data


def data_members(data: bytes | None) -> dict[str, str | None]:
    """Data in JSON: as text, or in base64 if they are not UTF-8, so that nothing is lost."""
    if data is None:
        return {"data": None, "data_base64": None}
    try:
        return {"data": data.decode(), "data_base64": None}
    except UnicodeDecodeError:
        return {"data": None, "data_base64": base64.b64encode(data).decode()}


_NO_DATA = b',"data":"","data_base64":""'
_KINDS = {int(kind): kind.name for kind in Kind}


def request_name(request: RequestFields) -> str:
    """What a request is: MULTI, CLOSE_SESSION; of a proxy's own NODE_DUE, CLOSE."""
    return constant_name(request.opcode) if request.kind == _CLIENT else _KINDS[request.kind]


def _json(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()
