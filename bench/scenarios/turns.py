"""Requests that are a lot of work, alone or together: the longest turn, and what another client notices.

Proxy, etcd and clients are in one process (see `bench.stages`), so that each turn of the event loop can be
measured: its CPU time, as far as it is the proxy's. Another client reads a small node in every turn.
"""

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from bench import wire
from bench.errors import BadReply
from bench.scenarios import Table
from bench.stages.cases import CONFIG, collecting_rarely, serving
from bench.stages.clients import Asker, Client, until
from bench.stages.loop import MeteredLoop
from bench.stages.meter import OUTSIDE, Meter
from lab.oracle import requests as oracle
from lab.oracle.wire import AUTH_XID, GET_ACL, frame
from proxy.admin.commands import Commands
from proxy.admin.json_text import encode
from proxy.etcd.model import KeyValue
from proxy.log.follow.log_order import LogOrder
from proxy.log.slices import in_slices
from proxy.options.words import KNOWN
from proxy.server import Server
from proxy.state import capture
from proxy.state.node import Node, new_node
from proxy.state.pause import Pause
from proxy.state.rights import OPEN
from schema.keys import Keyspace

_ROOT = "/t"
_PROBED = "/probed"
_CONFIG = dataclasses.replace(CONFIG, four_letter_words=KNOWN)
_AFTERMATH = 10  # turns that are watched as well after the answer
_CHUNK = 512  # requests that prepare, at a time
_BUFFER = 256_000  # bytes that uvloop reads at once
_IN_A_ROW = 32  # buffers of one client (uv__read)


_Result = TypeVar("_Result")


class TurnLoop(MeteredLoop):
    """Notes the longest turn: of the proxy, its CPU time in nanoseconds, or by `counting` its calls."""

    def __init__(self, meter: Meter, *, counting: bool = False) -> None:
        super().__init__(meter)
        self.longest = self.turns = 0
        self._spent = 0
        self._counts = (meter.python_calls, meter.c_calls) if counting else (meter.nanos,)

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        spent = self._proxys()
        self.longest = max(self.longest, spent - self._spent)
        self.turns += 1
        self._spent = spent

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Begin anew; what is found stands in `longest` and `turns`."""
        with self._meter.running():
            self._spent = self._proxys()
            self.longest = self.turns = 0
            yield

    def _proxys(self) -> int:
        self._meter.enter(self._meter.stage)
        return sum(count for counts in self._counts for stage, count in counts.items() if stage != OUTSIDE)


class _Caller(Client):
    """Asks for a four-letter word."""

    def __init__(self, server: Server, meter: Meter, word: bytes) -> None:
        super().__init__(server, meter, hello=word)

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        """The answer is not read."""

    @override
    def _take(self, data: bytes) -> None:
        raise AssertionError("this client has no session")


class _Pipelining(Client):
    """Sends requests without end, and drops the replies."""

    def __init__(self, server: Server, meter: Meter, opcode: int, body: bytes, xid: int) -> None:
        """An xid of 0 stands for the request's number, as `%07d` in the body does."""
        self._packets = (
            wire.packet(xid or number, opcode, body % number if b"%07d" in body else body)
            for number in itertools.count(1)
        )
        super().__init__(server, meter)

    @override
    def _take(self, data: bytes) -> None:
        """The replies mean nothing here."""

    def fill(self) -> None:
        """Send what one poll reads: buffer after buffer, until the proxy stops reading."""
        for _ in range(_IN_A_ROW):
            if self._paused or self.is_closed:
                return
            buffer = bytearray()
            while len(buffer) < _BUFFER:
                buffer += next(self._packets)
            self.give(bytes(buffer))


class Stage:
    """A proxy, a client that asks much, and one that asks little."""

    def __init__(self, server: Server, meter: Meter) -> None:
        self.server = server
        self.meter = meter
        self.busy = Asker(server, meter)
        self.probe = Asker(server, meter)

    async def prepared(self, nodes: list[str], *, flags: int = 0) -> None:
        """Create these nodes by the busy client."""
        await self.busy.call_many(_sent(oracle.Create(path, flags=flags)) for path in nodes)

    def grown(self, below: str, count: int) -> None:
        """Let there be so many nodes below one, as if they had been loaded."""
        tree = self.server.machine.tree
        for number in range(count):
            tree.attach(f"{below}/n-{number:010d}", _node(1))

    def asking(self, request: oracle.Request) -> Callable[[], Coroutine[Any, Any, None]]:
        """What asks for something and waits for the reply, which has to be a success."""
        return partial(self._answered, frame(oracle.encode(request, 1)))

    async def _answered(self, packet: bytes) -> None:
        self.busy.frames.clear()
        self.busy.give(packet)
        await until(lambda: bool(self.busy.frames) and _is_reply(self.busy.frames[-1]))
        _, _, _, error = wire.REPLY.unpack_from(self.busy.frames[-1])
        if error:
            raise BadReply(f"error {error}")


def _node(zxid: int) -> Node:
    return new_node(b"data", OPEN, 0, zxid, 0)


def _is_reply(frame: bytes) -> bool:
    return bool(wire.REPLY.unpack_from(frame)[1] != -1)


class Found(NamedTuple):
    """What a request did to the loop, and to the other client."""

    longest: int  # of the proxy in one turn: nanoseconds of CPU time, or calls of functions
    turns: int
    latencies: list[float]  # seconds from the other client's read to its answer


#: Prepares a stage at a size, and returns what is measured.
Work = Callable[[Stage, int], object]


def _sent(request: oracle.Request) -> tuple[int, bytes]:
    return oracle.opcode(request), oracle.encode_body(request)


def _names(count: int) -> list[str]:
    return [f"{_ROOT}/{number}" for number in range(count)]


async def _checks(stage: Stage, count: int) -> Callable[[], object]:
    return stage.asking(oracle.Multi((oracle.Check(_ROOT),) * count))


async def _creates(stage: Stage, count: int) -> Callable[[], object]:
    return stage.asking(oracle.Multi(tuple(map(oracle.Create, _names(count)))))


async def _failing(stage: Stage, count: int) -> Callable[[], object]:
    names = _names(count - 1)
    multi = _sent(oracle.Multi(tuple(map(oracle.Create, (*names, names[0])))))

    async def refused() -> None:
        stage.busy.frames.clear()
        stage.busy.ask(multi)
        await until(lambda: bool(stage.busy.frames))

    return refused


async def _deletes(stage: Stage, count: int) -> Callable[[], object]:
    await stage.prepared(_names(count))
    return stage.asking(oracle.Multi(tuple(map(oracle.Delete, _names(count)))))


async def _sets(stage: Stage, count: int) -> Callable[[], object]:
    await stage.prepared(_names(count))
    return stage.asking(oracle.Multi(tuple(map(oracle.SetData, _names(count)))))


async def _fired(stage: Stage, count: int) -> Callable[[], object]:
    await _watching(stage.probe, _names(count))
    return await _creates(stage, count)


async def _watching(watcher: Asker, paths: list[str]) -> None:
    for start in range(0, len(paths), _CHUNK):
        chunk = paths[start : start + _CHUNK]
        watcher.ask(*(_sent(oracle.Exists(path, watch=True)) for path in chunk))
        await until(lambda: len(watcher.frames) >= len(chunk))  # noqa: B023
        watcher.frames.clear()


async def _multi_read(stage: Stage, count: int) -> Callable[[], object]:
    return stage.asking(oracle.MultiRead((oracle.GetData(_ROOT),) * count))


async def _set_watches(stage: Stage, count: int) -> Callable[[], object]:
    return stage.asking(oracle.SetWatches2(0, exist=tuple(_names(count))))


async def _closed_watcher(stage: Stage, count: int) -> Callable[[], object]:
    watcher = Asker(stage.server, stage.meter)
    await watcher.connected()
    await _watching(watcher, _names(count))

    async def closed() -> None:
        watcher.close()
        await until(lambda: not stage.server.facts.subject.watches)

    return closed


async def _children(stage: Stage, count: int) -> Callable[[], object]:
    stage.grown(_ROOT, count)
    return stage.asking(oracle.GetChildren(_ROOT))


async def _all_children(stage: Stage, count: int) -> Callable[[], object]:
    for name in _names(10):
        await stage.prepared([name])
        stage.grown(name, count // 10)
    return stage.asking(oracle.GetAllChildrenNumber(_ROOT))


async def _quota(stage: Stage, count: int) -> Callable[[], object]:
    await _all_children(stage, count)
    quota = f"/zookeeper/quota{_ROOT}"
    await stage.prepared([quota])
    limits = oracle.Create(f"{quota}/zookeeper_limits", b"count=-1,bytes=-1")
    return stage.asking(oracle.Multi((limits, oracle.Create(f"{quota}/zookeeper_stats"))))


async def _ephemerals(stage: Stage, count: int) -> Callable[[], object]:
    await stage.prepared(_names(count), flags=oracle.EPHEMERAL)
    return stage.asking(oracle.GetEphemerals(""))


async def _session_end(stage: Stage, count: int) -> Callable[[], object]:
    await stage.prepared(_names(count), flags=oracle.EPHEMERAL)
    return stage.asking(oracle.CloseSession())


async def _fan_out(stage: Stage, count: int) -> Callable[[], object]:
    change = stage.asking(oracle.SetData(_ROOT, b"x"))
    watchers = []
    for _ in range(count):
        watcher = Asker(stage.server, stage.meter)
        await watcher.connected()
        watcher.ask(_sent(oracle.Exists(_ROOT, watch=True)))
        watcher.frames.clear()
        watchers.append(watcher)

    async def told() -> None:
        await change()
        await until(lambda: all(watcher.frames for watcher in watchers))

    return told


async def _acl(stage: Stage, count: int) -> Callable[[], Coroutine[Any, Any, None]]:
    acls = tuple((1, "digest", f"u{number:05d}:x") for number in range(count))
    return stage.asking(oracle.SetAcl(_ROOT, acls))


def _pipelined(code: int, body: bytes, xid: int = 0) -> Work:
    """Clients, a fifth as many as turns, send as much as the proxy reads in each turn."""

    async def prepare(stage: Stage, turns: int) -> Callable[[], object]:
        if code == GET_ACL:
            await (await _acl(stage, 500))()
        clients = [_Pipelining(stage.server, stage.meter, code, body, xid) for _ in range(max(3, turns // 5))]
        for client in clients:
            await client.connected()

        async def filled() -> None:
            for _ in range(turns):
                for client in clients:
                    client.fill()
                await asyncio.sleep(0)

        return filled

    return prepare


async def _loaded_anew(stage: Stage, count: int) -> Callable[[], object]:
    """Half of the nodes are others in the tree that is loaded, and each tenth one is watched."""
    await _watching(stage.probe, _names(count // 10))
    loaded = capture.new_machine(1)
    for tree, version in ((stage.server.machine.tree, 1), (loaded.tree, 2)):
        if _ROOT not in tree.nodes:
            tree.attach(_ROOT, _node(1))
        for number, name in enumerate(_names(count)):
            tree.attach(name, _node(version if number % 2 else 1))
    loaded.sessions.update(stage.server.machine.sessions)
    loaded.applied = dict(stage.server.machine.applied)
    loaded.reset_digest()
    return lambda: _in_a_task(stage.server.log.replace(loaded, restored=False))


async def _caught_up(stage: Stage, count: int) -> Callable[[], object]:
    """Entries of ten proxies, in the order of their names, as they are read after an outage."""
    keys = Keyspace("/behind")
    order = LogOrder(keys)
    entries = [
        KeyValue(keys.entry(f"{of:016x}", number), b"", 1, 2 + 10 * number + of, 1, 0)
        for of in range(10)
        for number in range(1, count // 10 + 1)
    ]
    return lambda: _as_the_proxys(partial(order.take_read, 10 * count, entries, [], None))


async def _as_the_proxys(work: Callable[[Pause], _Result]) -> _Result:
    """The result of some work of the proxy's."""
    return await _in_a_task(in_slices(work))


async def _in_a_task(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Do some work as a task of the proxy's: what the scenario does itself is not measured."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
    return task.result()


def _http(command: str) -> Callable[[Stage, int], object]:
    async def prepare(stage: Stage, count: int) -> Callable[[], object]:
        await stage.prepared(_names(count), flags=oracle.EPHEMERAL)
        await _watching(stage.busy, _names(count))
        commands = Commands(stage.server.facts, stage.server.auth)

        async def asked() -> None:
            answer = await _as_the_proxys(partial(commands.run, "GET", command, {}, None, "127.0.0.1"))
            await _as_the_proxys(partial(encode, answer.body))

        return asked

    return prepare


def _word(word: bytes) -> Callable[[Stage, int], object]:
    async def prepare(stage: Stage, count: int) -> Callable[[], object]:
        await stage.prepared(_names(count), flags=oracle.EPHEMERAL)
        await _watching(stage.busy, _names(count))

        async def asked() -> None:
            asker = _Caller(stage.server, stage.meter, word)
            await until(lambda: asker.is_closed)

        return asked

    return prepare


WORKS: dict[str, tuple[str, int, Work]] = {
    "checks": ("multi of 50,000 checks", 50_000, _checks),
    "creates": ("multi of 18,000 creates", 18_000, _creates),
    "failing": ("multi of 18,000 creates, of which the last one fails", 18_000, _failing),
    "sets": ("multi of 35,000 setData", 35_000, _sets),
    "deletes": ("multi of 40,000 deletes", 40_000, _deletes),
    "fired": ("multi of 18,000 creates, each of them watched", 18_000, _fired),
    "multi-read": ("multiRead of 60,000 nodes", 60_000, _multi_read),
    "set-watches": ("setWatches2 with 80,000 paths", 80_000, _set_watches),
    "closed": ("end of a connection with 100,000 watches", 100_000, _closed_watcher),
    "children": ("getChildren of 100,000 children", 100_000, _children),
    "all-children": ("getAllChildrenNumber of a million nodes", 1_000_000, _all_children),
    "quota": ("new quota over a million nodes", 1_000_000, _quota),
    "ephemerals": ("getEphemerals of 50,000", 50_000, _ephemerals),
    "session-end": ("end of a session with 50,000 ephemerals", 50_000, _session_end),
    "fan-out": ("setData of a node that 5,000 clients watch", 5_000, _fan_out),
    "acl": ("setACL with 40,000 entries", 40_000, _acl),
    "loaded": ("a tree of 200,000 nodes that is loaded anew, half of them others", 200_000, _loaded_anew),
    "caught-up": ("100,000 entries that are read after an outage, put in order", 100_000, _caught_up),
    "http-dump": ("dump by HTTP with 50,000 ephemerals", 50_000, _http("dump")),
    "http-wchp": ("watches_by_path by HTTP with 50,000 watches", 50_000, _http("watches_by_path")),
    "dump": ("dump with 50,000 ephemerals", 50_000, _word(b"dump")),
    "wchp": ("wchp with 50,000 watches", 50_000, _word(b"wchp")),
    # Light reads that set watches, heavy reads, requests that concern the connection, writes.
    **{
        f"pipelined-{name}": (f"60 clients that pipeline {text}, in 300 turns", 300, work)
        for name, text, work in (
            ("watches", "exists with a watch", _pipelined(wire.EXISTS, wire.INT.pack(9) + b"/w%07d\1")),
            ("acls", "getACL of 500 entries", _pipelined(*_sent(oracle.GetAcl(_ROOT)))),
            ("auth", "addauth", _pipelined(*_sent(oracle.AddAuth("digest", b"u:p")), AUTH_XID)),
            ("creates", "creates that fail", _pipelined(*_sent(oracle.Create(_ROOT)))),
            ("sets", "setData", _pipelined(*_sent(oracle.SetData(_ROOT)))),
        )
    },
}
"""By a short name: what is asked, how large it is, and how it is prepared."""


def found(name: str, scale: float = 1.0, *, counting: bool = False) -> Found:
    """Measure one of `WORKS`, at a share of its size. `counting`: calls of functions instead of time."""
    _, size, work = WORKS[name]
    meter = Meter(counting=counting)
    with asyncio.Runner(loop_factory=lambda: TurnLoop(meter, counting=counting)) as runner:
        return runner.run(_measured(work, max(1, round(size * scale)), meter))


async def _measured(work: Work, size: int, meter: Meter) -> Found:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnLoop)
    async with serving(meter, _CONFIG, metered=False) as (server, _etcd):
        stage = Stage(server, meter)
        await stage.busy.connected()
        await stage.probe.connected()
        await stage.prepared([_ROOT, _PROBED])
        act = await work(stage, size)  # type: ignore[misc]
        latencies: list[float] = []
        with collecting_rarely():
            async with asyncio.TaskGroup() as group:
                probing = group.create_task(probed(stage.probe, _PROBED, latencies))
                with loop.watched():
                    await asyncio.sleep(0)
                    await act()
                    for _ in range(_AFTERMATH):
                        await asyncio.sleep(0)
                probing.cancel()
        return Found(loop.longest, loop.turns, latencies)


async def probed(client: Asker, path: str, latencies: list[float]) -> None:
    """Read a small node in every turn, one read at a time."""
    while True:
        client.frames.clear()
        began = time.perf_counter()
        client.ask(_sent(oracle.GetData(path)))
        await until(lambda: any(map(_is_reply, client.frames)))
        await asyncio.sleep(0)
        latencies.append(time.perf_counter() - began)


def figures(found: Found) -> tuple[float, float, float]:
    """Milliseconds: of the longest turn, and the other client's 99th percentile and longest."""
    latencies = sorted(found.latencies) or [0.0]
    return found.longest / 1e6, 1000 * latencies[int(0.99 * len(latencies))], 1000 * latencies[-1]


def run(scale: float) -> Table:
    """All of them, at a share of their sizes."""
    rows: list[list[float | str | int]] = []
    for name, (text, _size, _work) in WORKS.items():
        measured = found(name, scale)
        longest, *times = figures(measured)
        rows.append([text, longest, measured.turns, *times])
    return Table(
        "Requests that are a lot of work, and another client that reads meanwhile"
        + ("" if scale == 1 else f" (at {scale:g} of the sizes)"),
        ["request", "longest turn, ms of CPU", "turns", "other client's p99, ms", "its longest, ms"],
        rows,
    )
