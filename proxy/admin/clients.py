"""Facts about clients for operators, as plain values: connections, sessions, ephemeral nodes, watches."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeVar

from codec.constants import OpCode
from proxy.admin.subject import Subject
from proxy.frontend.connection import Connection, ConnectionFacts
from proxy.state.ops import ROWS
from proxy.state.pause import Pause
from proxy.support.addresses import socket_address
from proxy.support.latency import MILLISECOND

_Item = TypeVar("_Item")

# Paths that are sorted, and their characters: 4 ms.
_SORTED = 8192
_SORTED_LENGTH = 1 << 20
# FinalRequestProcessor's names for what a client asked last.
_OPERATIONS: dict[int, str] = {opcode: row.word for opcode, row in ROWS.items() if row.word} | {
    OpCode.PING: "PING",
    OpCode.CREATE_SESSION: "SESS",
}


class Clients:
    """The clients of one server."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def connections(self, *, brief: bool) -> Iterator[dict[str, Any]]:
        """Every connection as ServerCnxn.getConnectionInfo has it; connections may come and go meanwhile."""
        for connection in list(self._subject.connections):
            yield _connection(connection, brief=brief)

    def reset_connections(self, pause: Pause) -> None:
        """Start the connections' statistics anew, not the server's (crst: ServerCnxn.resetStats)."""
        for some in pause.batches(self._subject.connections):
            for connection in some:
                connection.inbound.count = connection.outbound.sent = 0
                connection.resets += 1
                connection.latency.reset()

    def session_expiry(self, pause: Pause) -> dict[int, list[int]]:
        """This server's sessions by the time when they expire if their clients stay silent.

        In milliseconds of a monotonic clock, rounded up to the next tick, as in ZooKeeper's ExpiryQueue.
        """
        return self._expiry(self._subject.session_due(), pause)

    def connection_expiry(self, pause: Pause) -> dict[int, list[ConnectionFacts]]:
        """The connections by the time when they are closed if their clients stay silent, in the same form."""
        found = (connection.facts() for connection in list(self._subject.connections))
        return self._expiry(((facts, facts.due) for facts in found), pause)

    def _expiry(self, due: Iterable[tuple[_Item, float]], pause: Pause) -> dict[int, list[_Item]]:
        expiry: dict[int, list[_Item]] = {}
        for some in pause.batches(due):
            for item, seconds in some:
                expiry.setdefault(self._tick_after(seconds), []).append(item)
        return dict(sorted(expiry.items()))

    def _tick_after(self, seconds: float) -> int:
        tick = self._subject.config.tick_time
        return (int(seconds * 1000) // tick + 1) * tick

    @property
    def owners(self) -> int:
        """How many sessions of the tree own ephemeral nodes."""
        return len(self._subject.machine.tree.ephemerals)

    def ephemerals(self) -> Iterator[tuple[int, list[str]]]:
        """The ephemeral nodes of every session of the tree, also of other proxies' sessions."""
        ephemerals = self._subject.machine.tree.ephemerals
        for session in sorted(ephemerals):  # 10 ms for 100,000
            yield session, _in_order(ephemerals.get(session, ()))

    def watch_summary(self) -> tuple[int, int, int]:
        """(connections, paths, watches), of data watches only, as ZooKeeper's words have it."""
        return self._subject.watches.counts()

    def watches_by_session(self) -> Iterator[tuple[int, list[str]]]:
        """The paths that each session has data watches on."""
        for watcher, paths in self._subject.watches.paths_by_watcher():
            yield watcher.session_id, _in_order(paths)

    def watches_by_path(self, pause: Pause) -> Iterator[tuple[str, list[int]]]:
        """The sessions with data watches on each path."""
        for path, watchers in self._subject.watches.watchers_by_path(pause):
            yield path, [watcher.session_id for watcher in watchers]


def _in_order(paths: Collection[str]) -> list[str]:
    """Sorted for people, unless that takes long: people do not read so many."""
    is_short = len(paths) <= _SORTED and sum(map(len, paths)) <= _SORTED_LENGTH
    return sorted(paths) if is_short else list(paths)


def lop_name(opcode: int | None) -> str:
    """ZooKeeper's name of an operation in `lop`; for Keeper's own operations the number."""
    return "NA" if opcode is None else _OPERATIONS.get(opcode, str(opcode))


def _connection(connection: Connection, *, brief: bool) -> dict[str, Any]:
    facts = connection.facts()
    info: dict[str, Any] = {
        "remote_socket_address": socket_address(facts.address, facts.port),
        "interest_ops": int(not facts.is_closed),
        "outstanding_requests": facts.outstanding,
        "packets_received": facts.received,
        "packets_sent": facts.sent,
    }
    if not brief:
        latency = connection.latency
        opcode, zxid, nanos, ended = latency.last
        info |= {
            "session_id": facts.session_id,
            "last_operation": lop_name(opcode),
            "established": int(facts.since * 1000),
            "session_timeout": facts.timeout_ms,
            "last_cxid": latency.last_xid,
            "last_zxid": zxid,
            "last_response_time": ended // MILLISECOND,
            "last_latency": nanos // MILLISECOND,
            "min_latency": latency.minimum,
            "avg_latency": latency.average,
            "max_latency": latency.maximum,
        }
    return info
