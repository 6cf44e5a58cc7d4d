"""Sessions, watches and waiting requests as JSON. Reads the clock of requests, nothing else.

Sessions are all of the tree; connections, watches and requests are those of this proxy.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from itertools import chain
from time import perf_counter_ns
from typing import Any, NamedTuple

from codec.longs import hex64
from console.walks.listing import MOST_CHARACTERS, ordered
from console.walks.pacing import Pace, paced
from proxy.admin.clients import lop_name
from proxy.admin.subject import Subject
from proxy.frontend.connection import Connection
from proxy.state.auth.schemes import SCHEMES, named
from proxy.state.notifications import Watcher
from proxy.state.sessions import Session
from proxy.support.addresses import socket_address
from proxy.support.latency import MILLISECOND

_MOST_WATCHERS = 50  # of one path that are named
_MOST_WAITING = 200  # connections that are named
_MOST_REQUESTS = 5  # of one connection that are named
_LONGEST_PATH = 256  # characters of the path of such a request

_Page = tuple[list[dict[str, Any]], str | None]


class Order(NamedTuple):
    """Which sessions are wanted, and in which order."""

    sort: str = "id"  # one of SORTS
    down: bool = False
    text: str = ""  # that the id, the client's address or the proxy contains
    after: int | None = None  # only sessions behind this id, in the direction of `down`
    offset: int = 0
    limit: int = 100


async def sessions(subject: Subject, order: Order, pace: Pace) -> dict[str, Any]:
    """A page of the sessions that match, and where the next one begins."""
    known = subject.machine.sessions
    connections: dict[int, Connection] = {}
    for each in list(subject.connections):
        connections[each.session_id] = each
        await pace.rest()
    key = SORTS[order.sort]
    wanted = []
    for session in list(known.values()):
        await pace.rest()
        connection = connections.get(session.id)
        is_behind = order.after is None or (
            session.id < order.after if order.down else session.id > order.after
        )
        if is_behind and _matches(session, connection, order.text, _host(subject, session)):
            wanted.append((key(subject, session, connection), session.id))
    found = [pair async for pair in paced(ordered(lambda: wanted), pace)]
    if order.down:
        found.reverse()
    ids = [session_id for _, session_id in found[order.offset : order.offset + order.limit]]
    is_last = order.offset + order.limit >= len(found)
    return {
        "sessions": [
            _session(subject, known[session_id], connections.get(session_id))
            for session_id in ids
            if session_id in known
        ],
        "total": len(known),
        "matching": len(found),
        "next": hex64(ids[-1]) if ids and not is_last and order.sort == "id" else None,
    }


def _matches(session: Session, connection: Connection | None, text: str, host: str) -> bool:
    return (
        not text
        or text in hex64(session.id)
        or text in session.incarnation
        or text in host
        or (
            connection is not None
            and text in socket_address(connection.identity.address, connection.identity.port)
        )
    )


def _host(subject: Subject, session: Session) -> str:
    """That of the session's proxy; "" if it is not known."""
    proxy = subject.log_status().living.get(session.incarnation)
    return proxy.value.home.host if proxy else ""


def _watch_count(subject: Subject, connection: Connection | None) -> int:
    return sum(map(len, _watched(subject, connection).values())) if connection else -1


#: What sessions are sorted by.
SORTS: Mapping[str, Callable[[Subject, Session, Connection | None], Any]] = {
    "id": lambda _subject, session, _connection: session.id,
    "client": lambda _subject, _session, connection: (
        (connection.identity.address, connection.identity.port) if connection else ("", 0)
    ),
    "proxy": lambda subject, session, _connection: (_host(subject, session), session.incarnation),
    "timeout": lambda _subject, session, _connection: session.timeout_ms,
    "ephemerals": lambda subject, session, _connection: len(
        subject.machine.tree.ephemerals.get(session.id, ())
    ),
    "watches": lambda subject, _session, connection: _watch_count(subject, connection),
    "waiting": lambda _subject, _session, connection: connection.order.queue.count if connection else -1,
}


def _client(connection: Connection) -> str:
    return socket_address(connection.identity.address, connection.identity.port)


def _session(subject: Subject, session: Session, connection: Connection | None) -> dict[str, Any]:
    ephemerals = subject.machine.tree.ephemerals.get(session.id)
    return {
        "id": hex64(session.id),
        "timeoutMs": session.timeout_ms,
        "proxy": session.incarnation,
        "host": _host(subject, session),
        "here": session.incarnation == subject.log_status().incarnation,
        "ephemerals": len(ephemerals) if ephemerals else 0,
        "watches": _watch_count(subject, connection) if connection else None,
        "client": socket_address(connection.identity.address, connection.identity.port)
        if connection
        else None,
        "outstanding": connection.order.queue.count if connection else None,
    }


async def session(subject: Subject, session_id: int, limit: int, pace: Pace) -> dict[str, Any] | None:
    """One session with the first of its ephemerals and watches; None if there is no such session."""
    known = subject.machine.sessions.get(session_id)
    if known is None:
        return None
    connection = next((each for each in subject.connections if each.session_id == session_id), None)
    ephemerals = subject.machine.tree.ephemerals.get(session_id, set())
    paths = [path async for path in _first(paced(ordered(lambda: ephemerals), pace), limit)]
    found = _session(subject, known, connection) | {"paths": paths, "watched": [], "users": []}
    if connection is None:
        return found
    watched = _watched(subject, connection)
    paths_of = paced(ordered(lambda: chain.from_iterable(watched.values())), pace)
    found["watched"] = [
        {"path": path, "kinds": [kind for kind, paths in watched.items() if path in paths]}
        async for path in _first(paths_of, limit)
    ]
    found["users"] = [named(each) for each in connection.identities if each.scheme in SCHEMES]
    opcode, zxid, nanos, _ = connection.latency.last
    found |= {
        "sinceMs": int(connection.since * 1000),
        "received": connection.inbound.count,
        "sent": connection.outbound.sent,
        "lastOperation": lop_name(opcode),
        "lastZxid": hex64(zxid) if zxid >= 0 else None,
        "lastLatencyMs": nanos / MILLISECOND,
    }
    return found


async def watches(subject: Subject, prefix: str, after: str, limit: int, pace: Pace) -> _Page:
    """Watched paths in order, with the sessions that watch each, and the cursor of the next page."""
    table = subject.watches
    tables: Mapping[str, Mapping[str, Collection[Watcher]]] = {
        "data": table.data.by_path,
        "children": table.children.by_path,
        "persistent": table.persistent.by_path,
        "recursive": table.recursive.by_path,
    }
    paths = paced(
        ordered(
            lambda: chain.from_iterable(tables.values()),
            lambda path: path > after and path.startswith(prefix),
        ),
        pace,
    )
    found = [path async for path in _first(paths, limit + 1)]
    is_last = len(found) <= limit and sum(map(len, found)) < MOST_CHARACTERS
    rows = []
    for path in found[:limit]:
        watchers = [(kind, by_path[path]) for kind, by_path in tables.items() if path in by_path]
        named = [
            {"session": hex64(watcher.session_id), "kind": kind}
            for kind, each in watchers
            for watcher in _some(each, _MOST_WATCHERS)
        ]
        rows.append({"path": path, "total": sum(len(each) for _, each in watchers), "watchers": named})
        await pace.rest()
    return rows, None if is_last else found[:limit][-1]


async def pending(subject: Subject, pace: Pace) -> dict[str, Any]:
    """Clients with requests that have no answer yet, and what each of them waits for."""
    rows: list[dict[str, Any]] = []
    clients = 0
    now = perf_counter_ns()
    for connection in subject.connections:
        await pace.rest()
        if not connection.order.queue.count:
            continue
        clients += 1
        if len(rows) < _MOST_WAITING:
            rows.append(
                {
                    "session": hex64(connection.session_id),
                    "client": _client(connection),
                    "outstanding": connection.order.queue.count,
                    "requests": [
                        {
                            "operation": lop_name(each.opcode),
                            "path": each.path and each.path[:_LONGEST_PATH],
                            "waitsFor": "the log" if each.in_log else "the request before it",
                            "ms": max(0, now - each.received) // MILLISECOND,
                        }
                        for each in connection.order.waiting(_MOST_REQUESTS)
                    ],
                }
            )
    contact, log = subject.contact, subject.log_status()
    return {
        "clients": clients,
        "rows": rows,
        "log": {"outstanding": log.outstanding, "inFlight": log.unanswered},
        "inTouch": contact.in_touch,
        "silenceMs": int(contact.silence * 1000),
    }


def _watched(subject: Subject, connection: Connection | None) -> dict[str, Collection[str]]:
    """The paths that a connection watches, by kind."""
    if connection is None:
        return {}
    table = subject.watches
    kinds = {
        "data": table.data.by_watcher,
        "children": table.children.by_watcher,
        "persistent": table.persistent.by_watcher,
        "recursive": table.recursive.by_watcher,
    }
    found: dict[str, Collection[str]] = {}
    for kind, by_watcher in kinds.items():
        paths = by_watcher.get(connection)
        if paths:
            found[kind] = paths
    return found


def _some(watchers: Iterable[Watcher], most: int) -> list[Watcher]:
    return [watcher for watcher, _ in zip(watchers, range(most), strict=False)]


async def _first(names: AsyncIterator[str], most: int) -> AsyncIterator[str]:
    """At most so many of them, and no more characters than an answer has."""
    if most <= 0:
        return
    left = MOST_CHARACTERS
    async for name in names:
        yield name
        most -= 1
        left -= len(name)
        if not most or left <= 0:
            return
