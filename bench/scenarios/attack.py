"""Clients that want to hold the loop: they pipeline as much as the proxy reads, and look for the worst.

Proxy, etcd and clients are in one process, as for `turns`. In each turn every attacker fills buffers of the
size that libuv reads, up to 32 in a row, until the proxy stops reading from it. The search begins with each
kind of request alone, and continues with mixtures of those that held the loop longest.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from itertools import count, cycle

from bench import wire
from bench.scenarios import Table
from bench.scenarios.turns import Found, TurnLoop, figures, probed
from bench.stages.cases import CONFIG, collecting_rarely, serving
from bench.stages.clients import Asker, Client
from bench.stages.meter import Meter
from proxy.server import Server

_BUFFER = 256_000  # bytes that uvloop reads at once
_IN_A_ROW = 32  # uv__read
_TURNS = 300  # that are watched
_SEED = 18
_MIXED = 3
_MIXTURES = 20
_MOST_CLIENTS = 60  # of one address (maxClientCnxns)
_NODE, _WIDE, _LONG_ACL = b"/attack", b"/attack/wide", b"/attack/acl"
_CHILDREN = 300  # few enough that their list is a small reply
_ENTRIES = 500

Request = tuple[int, int, bytes]  # xid, opcode, body; an xid of 0 stands for the next one


def _body_of_acl(entries: int) -> bytes:
    return wire.INT.pack(entries) + b"".join(
        wire.INT.pack(1) + wire.text(b"digest") + wire.text(b"u%05d:x" % number) for number in range(entries)
    )


def _set_watches(paths: int) -> bytes:
    names = b"".join(wire.text(b"%s/%d" % (_NODE, number)) for number in range(paths))
    return bytes(8) + wire.INT.pack(0) + wire.INT.pack(paths) + names + wire.INT.pack(0) * 3


def _multi(opcode: int, body: bytes, parts: int) -> bytes:
    return (wire.MULTI_HEADER.pack(opcode, False, -1) + body) * parts + wire.MULTI_END


_NODE_READ = wire.text(_NODE) + b"\0"
#: By name: a request, or one that differs each time (`%d` is its number).
KINDS: dict[str, Request] = {
    "exists of no node": (0, wire.EXISTS, wire.text(b"/x") + b"\0"),
    "exists with a watch": (0, wire.EXISTS, wire.INT.pack(9) + b"/w%07d" + b"\1"),
    "getData": (0, wire.GET_DATA, _NODE_READ),
    "getChildren of 300": (0, wire.GET_CHILDREN, wire.text(_WIDE) + b"\0"),
    "getACL of 500 entries": (0, 6, wire.text(_LONG_ACL)),
    "getEphemerals": (0, 103, wire.text(b"")),
    "getAllChildrenNumber": (0, 104, wire.text(_NODE)),
    "whoAmI": (0, 107, b""),
    "multiRead of 900": (0, 22, _multi(wire.GET_DATA, _NODE_READ, 900)),
    "setWatches2 of 900": (-8, 105, _set_watches(900)),
    "addWatch": (0, 106, wire.INT.pack(9) + b"/w%07d" + wire.INT.pack(1)),
    "addauth of one user": (-4, 100, wire.INT.pack(0) + wire.text(b"digest") + wire.text(b"u:p")),
    "addauth of users": (
        -4, 100, wire.INT.pack(0) + wire.text(b"digest") + wire.INT.pack(9) + b"%07d:p"
    ),
    "ping": (-2, 11, b""),
    "setData": (0, wire.SET_DATA, wire.set_body(_NODE, b"")),
    "sync": (0, wire.SYNC, wire.text(_NODE)),
    "setACL of 500 entries": (0, 7, wire.text(_LONG_ACL) + _body_of_acl(_ENTRIES) + wire.INT.pack(-1)),
    "create that fails": (0, wire.CREATE, wire.create_body(_NODE, b"")),
    "multi of 500 checks": (
        0, wire.MULTI, _multi(wire.CHECK, wire.text(_NODE) + wire.INT.pack(-1), 500)
    ),
    "a write that is cut": (0, wire.SET_DATA, b"\0"),
}  # fmt: skip


class Attacker(Client):
    """Sends requests without end, and drops the replies."""

    def __init__(self, server: Server, meter: Meter, kinds: Sequence[str]) -> None:
        self._packets = _packets(kinds)
        super().__init__(server, meter)

    def _take(self, data: bytes) -> None:
        """The replies mean nothing here."""

    def attack(self) -> None:
        """Send what one poll reads: buffer after buffer, until the proxy stops reading."""
        for _ in range(_IN_A_ROW):
            if self._paused or self.is_closed:
                return
            buffer = bytearray()
            while len(buffer) < _BUFFER:
                buffer += next(self._packets)
            self.give(bytes(buffer))


def _packets(kinds: Sequence[str]) -> Iterator[bytes]:
    numbers = count(1)
    for name in cycle(kinds):
        xid, opcode, body = KINDS[name]
        number = next(numbers)
        yield wire.packet(xid or number, opcode, body % number if b"%07d" in body else body)


def held(kinds: Sequence[str], attackers: int, turns: int = _TURNS, *, counting: bool = False) -> Found:
    """What so many attackers that send these kinds in turn do to the loop, and to another client."""
    meter = Meter(counting=counting)
    with asyncio.Runner(loop_factory=lambda: TurnLoop(meter, counting=counting)) as runner:
        return runner.run(_held(kinds, attackers, turns, meter))


async def _held(kinds: Sequence[str], attackers: int, turns: int, meter: Meter) -> Found:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnLoop)
    async with serving(meter, CONFIG, metered=False) as (server, _etcd):
        probe = Asker(server, meter)
        await probe.connected()
        wide = [b"%s/%d" % (_WIDE, number) for number in range(_CHILDREN)]
        creates = [wire.create_body(path, b"") for path in (_NODE, _WIDE, *wide)]
        acl = wire.text(_LONG_ACL) + wire.text(b"") + _body_of_acl(_ENTRIES) + wire.INT.pack(0)
        await probe.call_many((wire.CREATE, body) for body in (*creates, acl))
        clients = [Attacker(server, meter, kinds) for _ in range(attackers)]
        for client in clients:
            await client.connected()
        latencies: list[float] = []
        with collecting_rarely():
            async with asyncio.TaskGroup() as group:
                probing = group.create_task(probed(probe, _NODE, latencies))
                with loop.watched():
                    for _ in range(turns):
                        for client in clients:
                            client.attack()
                        await asyncio.sleep(0)
                probing.cancel()
        return Found(loop.longest, loop.turns, latencies)


def run(scale: float) -> Table:
    """Each kind alone, from one client and from as many as one address may have, then mixtures."""
    chance = random.Random(_SEED)
    seen: dict[tuple[tuple[str, ...], int], Found] = {
        ((name,), clients): held((name,), clients) for name in KINDS for clients in (1, _MOST_CLIENTS)
    }
    for _ in range(round(_MIXTURES * scale)):
        worst = [kinds for kinds, _ in sorted(seen, key=lambda tried: -seen[tried].longest)[:_MIXED]]
        mixture = (*chance.choice(worst)[: _MIXED - 1], *chance.choice(worst)[:1], chance.choice([*KINDS]))
        clients = chance.choice((1, 8, _MOST_CLIENTS))
        seen[mixture, clients] = held(mixture, clients)
    return Table(
        "Attackers that pipeline requests, and another client that reads meanwhile",
        ["requests", "attackers", "longest turn, ms of CPU", "other client's p99, ms", "its longest, ms"],
        [[", ".join(kinds), clients, *figures(found)] for (kinds, clients), found in seen.items()],
    )
