"""The scripts of one connection, against the real state machine: of its order, and of its states.

Inputs. A request has an xid, or a range of them as 1..9; several requests of one chunk are separated by `;`.

send REQUESTS     one chunk comes; then the event loop runs until nothing is left to do
receive REQUESTS  the same without any turn of the loop
turn, run         one turn of the loop, or all that there are
apply [N]         the log applies N writes, or all that it has
commit [N]        the same without any turn of the loop
fail ERROR        the outcome of the first write in the log is this error
pause, resume     the client does not read any more, or reads again
close, lose       this server closes the connection, or the client is gone
event N           N watch events are sent
limits NAME=N ..  limits of the connection, at the beginning
large N           the data of /b gets N bytes
slow              every listing takes long, which cannot be known before
wide N            /b has N children
half, whole       a write is applied in part, or the state is whole again
glimpse           the state is whole for a moment, in which the next write begins to be applied in part
drain             the server stops
tree              shows the data of /a and the names of all nodes
new               another client, which has sent nothing
ask [REQUESTS]    it sends the connect request, and these with it
word TEXT         it sends this in place of one
grant, refuse     it has its session, or gets none
limit SECONDS     it has to get its session within these
wait SECONDS      time passes
freeze, thaw      another process takes over, or does not
others N          other clients have N requests that wait

Outputs. `log` are requests that the log gets, `says` is a line of the server's own log. Each line of `client`
is one write to the transport, with the replies in it: xid, error, how many zxids after the beginning, and
what a read has found. Then what has changed: the connection's state, how many requests wait, whether the
client is read from, whether the log may change the state.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from codec import client as zk
from codec.client import PING, auth, close, connect, create, framed, sasl, set_data
from codec.constants import CreateMode, ErrorCode, EventType, OpCode, Xid
from codec.errors import MalformedPacket
from codec.framing import Framer
from codec.jute import Reader, pack_buffer, pack_string
from lab.client.replies import Reply, reply_of
from lab.fakes.connection import Client, established, take_apart
from proxy.frontend import opening
from proxy.frontend.limits import LIMITS
from proxy.log.append.pending import Pending
from proxy.log.slices import Slices
from proxy.state.node import full_node
from proxy.state.notifications import Notifications
from proxy.state.pause import Lengths
from proxy.state.rights import OPEN
from tests import golden

ORDER, CONNECTION = map(Path(__file__).with_name, ("order.txt", "connection.txt"))
_ALL_SLOW = Lengths(every=1, at_once=-1)
_READS = {
    "get": OpCode.GET_DATA,
    "exists": OpCode.EXISTS,
    "list": OpCode.GET_CHILDREN,
    "acl": OpCode.GET_ACL,
    "count": OpCode.GET_ALL_CHILDREN_NUMBER,
}


def _packet(xid: int, words: Sequence[str]) -> bytes:
    match words:
        case ["get" | "exists" | "list", path, *watch]:
            return framed(xid, _READS[words[0]], pack_string(path) + bytes((bool(watch),)))
        case ["acl" | "count", path]:
            return framed(xid, _READS[words[0]], pack_string(path))
        case ["ephemerals"]:
            return framed(xid, OpCode.GET_EPHEMERALS, pack_string(""))
        case ["who"]:
            return framed(xid, OpCode.WHO_AM_I)
        case ["create", path, *mode]:
            return zk.packet(xid, create(path, mode=CreateMode[mode[0]] if mode else 0))
        case ["set", path, data]:
            return zk.packet(xid, set_data(path, data.encode()))
        case ["auth", scheme]:
            return zk.packet(Xid.AUTH, auth(scheme, b"user:word"))
        case ["sasl", token]:
            return zk.packet(7, sasl(token.encode()))
        case ["opcode", number]:
            return framed(xid, int(number))
        case ["malformed", name]:
            return framed(xid, OpCode[name], b"\0\0\0\x05/a")
        case ["close"]:
            return zk.packet(xid, close())
        case ["ping"]:
            return PING
        case ["cut"]:
            return pack_buffer(b"\0\0\0\4\0\0\0")
    raise AssertionError(f"what is {words}?")


def _chunk(text: str) -> Iterator[bytes]:
    for request in text.split(";"):
        first, *words = request.split()
        begin, _, end = first.partition("..")
        if not begin.lstrip("-").isdigit():
            yield _packet(0, [first, *words])
            continue
        for xid in range(int(begin), int(end or begin) + 1):
            yield _packet(xid, words)


class Line(NamedTuple):
    """One reply, or one request in the log."""

    xid: int
    text: str
    zxid: int | None = None  # after the beginning
    body: str = ""

    def continues(self, last: "Line") -> bool:
        """Whether both stand on one line: one xid after the other, or the same event again."""
        if self.xid < 0 or self.xid != last.xid + 1 or self[1::2] != last[1::2]:
            return self == last
        return self.zxid == last.zxid or (self.zxid is not None and self.zxid - 1 == last.zxid)


def _told(lines: Sequence[Line]) -> Iterator[str]:
    first = 0
    for place, line in enumerate(lines, 1):
        # All of a range have the same zxid, or all have their own.
        if place < len(lines) and lines[place].continues(line):
            begun = lines[first]
            if begun is line or (lines[place].zxid == line.zxid) == (line.zxid == begun.zxid):
                continue
        begun, count, first = lines[first], place - first, place
        if line.xid == -1:
            yield f"{line.text} {count} times" if count > 1 else line.text
            continue
        yield " ".join(
            filter(
                None, (_range(begun.xid, line.xid), line.text, _range(begun.zxid, line.zxid, "+d"), line.body)
            )
        )


def _range(first: int | None, last: int | None, form: str = "") -> str:
    if first is None or last is None:
        return ""
    return format(first, form) if first == last else f"{first:{form}}..{last:{form}}"


def _granted(payload: bytes) -> str:
    session_id, _, timeout_ms = zk.connected(payload)
    return f"session {session_id}, timeout {timeout_ms} ms"


class World:
    """A client with the nodes /a, whose data is "old", and /b."""

    def __init__(self, says: pytest.LogCaptureFixture) -> None:
        says.set_level(logging.INFO)
        self.says = says
        self._begin()

    def _begin(self, **limits: int) -> None:
        self._meet(established(limits=LIMITS._replace(**limits)), is_served=True)

    def _meet(self, client: Client, *, is_served: bool) -> None:
        self.client = client
        self.says.clear()
        self.is_served = is_served  # the answer to its connect request was sent
        self.zxid = self.client.host.machine.zxid
        self.opcodes: dict[int, int] = {}
        self.in_log: list[Pending] = []
        self.writes = len(self.client.transport.writes)
        self.shown = self._state()

    def _state(self) -> list[str]:
        """What may change with each input, in words."""
        client = self.client
        return [
            client.connection.order.life.value,
            f"{client.connection.order.queue.count} wait",
            "is read from" if client.transport.is_read() else "is not read from",
            "the state stays" if client.host.holds else "the state may change",
        ]

    def answer(self, words: Sequence[str]) -> list[str]:
        """What comes out for an input."""
        name, text = words[0], " ".join(words[1:])
        shown = getattr(self, name)(text) or []
        said = [f"says: {record.getMessage()}" for record in self.says.records]
        self.says.clear()
        return [*shown, *said, *self._log(), *self._client(), *self._changes()]

    def _log(self) -> Iterator[str]:
        pending = self.client.host.pending
        known = set(map(id, self.in_log))
        new = [each for each in pending if id(each) not in known]
        self.in_log = pending
        if new:
            lines = [Line(getattr(each, "xid", 0), OpCode(each.opcode).name) for each in new]
            yield "log: " + ", ".join(_told(lines))

    def _client(self) -> Iterator[str]:
        writes = self.client.transport.writes
        framer, packets = Framer(1 << 30), list[bytes]()
        for write in writes[self.writes :]:
            if not self.is_served:
                self.is_served = True
                is_word = write[:1] != b"\0"
                yield "client: " + (repr(write.decode()) if is_word else _granted(take_apart(write)[0]))
                continue
            packets += framer.feed(write)
            if not framer.held:  # else the rest of a large write is in the next piece
                yield "client: " + ", ".join(_told([self._line(reply_of(each)) for each in packets]))
                packets = []
        assert not framer.held
        self.writes = len(writes)

    def _line(self, reply: Reply) -> Line:
        if reply.xid == -1:
            kind, path = reply.event
            return Line(-1, f"{EventType(kind).name} {path}")
        text = ErrorCode(reply.err).name if reply.err else "ok"
        if reply.zxid <= 0:
            return Line(reply.xid, f"{text} with zxid {reply.zxid}")
        body, opcode = "", self.opcodes.get(reply.xid)
        if reply.err or not reply.body:
            pass
        elif opcode == OpCode.GET_DATA:
            body = repr(reply.data.decode()) if len(reply.data) < 20 else f"{len(reply.data)} bytes"
        elif opcode == OpCode.GET_CHILDREN:
            names = Reader(reply.body).strings() or ()
            body = " ".join(sorted(map(str, names))) if len(names) < 20 else f"{len(names)} names"
        return Line(reply.xid, text, reply.zxid - self.zxid, body)

    def _changes(self) -> Iterator[str]:
        now = self._state()
        changed = [after for before, after in zip(self.shown, now, strict=True) if before != after]
        self.shown = now
        if changed:
            yield ", ".join(changed)

    # -- inputs --------------------------------------------------------------------------------------------

    def receive(self, text: str) -> None:
        chunk = list(_chunk(text))
        for packet in take_apart(b"".join(chunk)):
            try:
                reader = Reader(packet, 0)
                xid, opcode = reader.int(), reader.int()
                self.opcodes[xid] = opcode
            except MalformedPacket:
                continue
        self.client.connection.data_received(b"".join(chunk))

    def send(self, text: str) -> None:
        self.receive(text)
        self.run("")

    def turn(self, _: str) -> None:
        self.client.loop.turn()

    def run(self, _: str) -> None:
        self.client.loop.run()

    def apply(self, text: str) -> None:
        self.client.commit(int(text) if text else None)

    def commit(self, text: str) -> None:
        self.client.host.commit(int(text) if text else None)

    def fail(self, text: str) -> None:
        pending = self.client.host.outbox.queue.popleft()
        pending.callback(pending, self.zxid + 9, ErrorCode[text], b"")
        self.run("")

    def pause(self, _: str) -> None:
        self.client.connection.pause_writing()

    def resume(self, _: str) -> None:
        self.client.connection.resume_writing()
        self.run("")

    def close(self, _: str) -> None:
        self.client.connection.close()
        self.run("")

    def lose(self, _: str) -> None:
        self.client.lose()

    def event(self, text: str) -> None:
        for _ in range(int(text)):
            self.client.connection.notify(
                Notifications(EventType.NODE_CREATED, "/a-path-of-some-length", 1, OPEN)
            )
        self.run("")

    def limits(self, text: str) -> None:
        named = (each.split("=") for each in text.split())
        self._begin(**{name: int(value) for name, value in named})

    def large(self, text: str) -> None:
        full_node(self.client.host.machine.tree.nodes, "/b").data = bytes(int(text))

    def wide(self, text: str) -> None:
        node = full_node(self.client.host.machine.tree.nodes, "/b")
        node.children = dict.fromkeys(f"/b/{number}" for number in range(int(text)))

    def slow(self, _: str) -> None:
        self.client.host.reading.pause.lengths = _ALL_SLOW

    def half(self, _: str) -> None:
        self.client.host.begin_long_write()

    def whole(self, _: str) -> None:
        self.client.host.end_long_write()
        self.run("")

    def glimpse(self, _: str) -> None:
        self.client.host.call_waiting()
        self.run("")

    def drain(self, _: str) -> None:
        self.client.host.connections.drain()
        self.run("")

    def tree(self, _: str) -> list[str]:
        nodes, watches = self.client.host.machine.tree.nodes, self.client.host.watches.total()
        data = full_node(nodes, "/a").data or b""
        paths = [path for path in sorted(nodes) if not path.startswith("/zookeeper")]
        return [f"/a has {data.decode()!r}, all: {' '.join(paths)}, {watches} watches"]

    def new(self, _: str) -> None:
        self._meet(Client(host=self.client.host), is_served=False)

    def ask(self, text: str) -> None:
        self.client.send(b"".join((connect(9000), *(_chunk(text) if text else ()))))

    def word(self, text: str) -> None:
        self.client.send(text.encode())

    def grant(self, _: str) -> None:
        self.client.establish()
        self.run("")

    def refuse(self, _: str) -> None:
        self.client.connection.refuse()

    def limit(self, text: str) -> None:
        self.client.connection.limit_wait(float(text))

    def wait(self, text: str) -> None:
        self.client.loop.wait(float(text))

    def freeze(self, _: str) -> None:
        self.client.host.connections.freeze()

    def thaw(self, _: str) -> None:
        self.client.host.connections.thaw()
        self.run("")

    def others(self, text: str) -> None:
        self.client.host.load.requests += int(text)


@golden.one_by_one(ORDER)
def test_order_script(case: golden.Case, caplog: pytest.LogCaptureFixture) -> None:
    golden.check(ORDER, case, World(caplog).answer)


@golden.one_by_one(CONNECTION)
def test_connection_script(
    case: golden.Case, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A word is answered in one slice, however busy the host is.
    monkeypatch.setattr(opening, "Slices", partial(Slices, seconds=math.inf))
    golden.check(CONNECTION, case, World(caplog).answer)
