"""What is in etcd besides the tree: the log's entries, the proxies, and how much space they take."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from cli.output import Output, counted, date, size, table
from codec.longs import hex64
from codec.operation_names import constant_name
from ctl.clocks import DIFFER, ahead
from ctl.program import Program, Tree
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Get, KeyValue
from proxy.etcd.status_poller import ReadMetrics
from proxy.log.follow.catch_up import entries_after
from proxy.log.foreign import ours
from proxy.log.living import LivingProxies
from proxy.log.record import TIMEOUT, Look, TreeSealed, is_copy, living_of, look, servable
from proxy.log.upkeep.truncation import applied_in
from proxy.options import values
from proxy.state.level import KNOWN
from proxy.state.ops import EXTENDED
from proxy.support.environment import clock_ms
from schema.budgets import decode_rule
from schema.entry import (
    Entry,
    Kind,
    Request,
    Written,
    decode_carry_over,
    decode_close,
    decode_entry,
    decode_epoch,
    decode_forget,
    decode_level,
    decode_node_due,
    decode_terms,
)
from schema.errors import BadValue
from schema.followed import Lag, counts_of, decode_lag
from schema.keys import Keyspace
from schema.record import Home, SnapshotRef

_BODIES: dict[Kind, Callable[[bytes], Any]] = {
    Kind.OPEN: decode_terms,
    Kind.ATTACH: decode_terms,
    Kind.CLOSE: decode_close,
    Kind.CARRY_OVER: decode_carry_over,
    Kind.NODE_DUE: decode_node_due,
    Kind.EPOCH: decode_epoch,
    Kind.LEVEL: decode_level,
    Kind.FORGET: decode_forget,
    Kind.FOLLOWED: counts_of,
    Kind.BUDGET: decode_rule,
}
_SECRET = "password_hash"
_HEARD = 5.0  # seconds after which nothing is known of what a copy lacks
_ZXIDS = ("after", "zxid", "zxid_at_least")


async def proxies(etcd: Etcd, keys: Keyspace) -> Output:
    """The living proxies."""
    found = await look(etcd, keys)
    if found.record is None:
        servable(found, keys, KNOWN)  # a tree that this release cannot serve has proxies too
    more: list[str] = []
    if found.record is not None and found.record.seal is not None and found.pair is not None:
        more = ["", str(TreeSealed(keys, found.record.seal, found.pair.mod_revision))]
    elif is_copy(found):
        more = ["", await _lag(etcd, keys)]
    living = living_of(found, keys)
    clocks = await asyncio.to_thread(ahead, living.homes)
    rows = [
        {
            "proxy": proxy.incarnation,
            "since": proxy.revision,
            "levels": list(proxy.value.levels),
            "release": proxy.value.version,
            **proxy.value.home._asdict(),
            "peers": proxy.value.peer_port.address,
            "clock_ahead_seconds": _seconds(clocks.get(proxy.incarnation)),
        }
        for proxy in living
    ]
    return Output(
        rows,
        table(
            (
                "proxy",
                "since position",
                "levels",
                "release",
                "host",
                "clients",
                "admin",
                "peers",
                "started",
                "clock",
            ),
            [
                (
                    row["proxy"],
                    row["since"],
                    ",".join(map(str, row["levels"])),
                    row["release"],
                    row["host"] or "-",
                    row["listen"] or "-",
                    row["admin"] or "-",
                    row["peers"] or "-",
                    date(row["started"]) if row["started"] else "-",
                    _shown_clock(row["clock_ahead_seconds"]),
                )
                for row in rows
            ],
        )
        + _combined(living)
        + more,
    )


async def _lag(etcd: Etcd, keys: Keyspace) -> str:
    """How far a tree is behind the one that it follows."""
    there = (await etcd.range(Get(keys.lag), TIMEOUT)).kvs
    follows = f"the tree under {keys.prefix.decode()} follows another one"
    lag = decode_lag(there[0].value) if there else Lag(0, 0)
    if not lag.level_ms:
        return f"{follows}, and was not level yet"
    late = max(0, clock_ms() - lag.level_ms) / 1000
    behind = f"{lag.behind} behind, " if lag.behind or late < _HEARD else ""
    return f"{follows}: at zxid 0x{lag.zxid:x}, {behind}level {late:.1f} s ago"


def _combined(living: LivingProxies) -> list[str]:
    """Which proxy appends the entries of all, or why none does."""
    if (combiner := living.combiner) is not None:
        reached = f"all proxies that reach {combiner.value.peer_port.address}"
        return ["", f"{combiner.incarnation} appends the entries of {reached}, while that is quicker"]
    lacking = [proxy.incarnation for proxy in living.servers if not proxy.value.peer_port.address]
    if len(lacking) == len(living.servers):
        return []
    return ["", f"each proxy appends its own entries: {', '.join(lacking)} without --peer-listen"]


def _seconds(ahead: float | str | None) -> float | None:
    return round(ahead, 1) if isinstance(ahead, float) else None


def _shown_clock(ahead: float | None) -> str:
    """How a proxy's clock differs from this host's."""
    if ahead is None:
        return "-"
    return f"{ahead:+.0f} s" if abs(ahead) > DIFFER else "agrees"


def _named(incarnation: str, host: str) -> str:
    return f"{incarnation} ({host})" if host else incarnation


async def tail(etcd: Etcd, keys: Keyspace, count: int) -> Output:
    """The last entries of the log."""
    found, entries = await _entries(etcd, keys)
    homes = living_of(found, keys).homes
    rows = [_row(keys, kv) for kv in entries[-count:]]
    for row in rows:
        row["host"] = homes.get(row["proxy"], Home()).host
    lines = []
    for row in rows:
        lines.append(
            f"{row['position']}  {_named(row['proxy'], row['host'])}  {row['number']}  {row['clock']}"
            f"  {size(row['bytes'])}  {counted(len(row['requests']), 'request')}"
        )
        lines += [f"    {_line(request)}" for request in row["requests"]]
        if row["error"]:
            lines.append(f"    cannot be read: {row['error']}")
    return Output(rows, lines)


async def sizes(etcd: Etcd, keys: Keyspace, read_metrics: ReadMetrics | None = None) -> Output:
    """How much the log and the snapshots take.

    `read_metrics`: for an etcd that tells its size to root alone.
    """
    found, entries = await _entries(etcd, keys)
    record = servable(found, keys, KNOWN, even_sealed=True, even_copy=True)
    logs: dict[str, list[int]] = {}
    since = [0, 0]
    oldest = 0
    current = record.current
    for kv in entries:
        incarnation = keys.parse(kv.key).incarnation
        total = logs.setdefault(incarnation, [0, 0])
        total[0] += 1
        total[1] += len(kv.value)
        if current is None or kv.mod_revision > current.position:
            since[0] += 1
            since[1] += len(kv.value)
            oldest = oldest or _clock(kv.value)
    snapshots = await _snapshots(etcd, keys, record.current, record.previous)
    status = await etcd.status(TIMEOUT)
    if not status.version and read_metrics is not None:
        measured = await read_metrics(etcd.endpoint)
        status = status if measured is None else measured.completed(status)
    age = max(0.0, datetime.now(UTC).timestamp() - oldest / 1000) if oldest else 0.0
    document = {
        "revision": found.revision,
        "level": record.level,
        "log": [
            {"proxy": name, "entries": total[0], "bytes": total[1]} for name, total in sorted(logs.items())
        ],
        "since_snapshot": {"entries": since[0], "bytes": since[1], "seconds": round(age)},
        "snapshots": snapshots,
        "etcd": {"database_bytes": status.db_size, "in_use_bytes": status.db_size_in_use}
        if status.version
        else None,
    }
    lines = table(
        ("log of proxy", "entries", "bytes"), [(name, *total) for name, total in sorted(logs.items())]
    )
    lines += [
        "",
        f"log since the current snapshot: {since[0]} entries, {size(since[1])}, the oldest {age:.0f} s old",
        "",
    ]
    lines += table(
        ("snapshot", "is", "pages", "bytes", "znodes", "sessions"),
        [
            (each["name"], each["is"], each["pages"], each["bytes"], each["nodes"], each["sessions"])
            for each in snapshots
        ],
    )
    if status.version:
        lines += ["", f"etcd's database: {size(status.db_size)}, in use {size(status.db_size_in_use)}"]
    else:
        lines += ["", "etcd's database: etcd tells its size only to root, and shows no metrics"]
    return Output(document, lines)


async def written(etcd: Etcd, keys: Keyspace) -> tuple[Look, list[Written]]:
    """All entries that the log in etcd still holds, in their order."""
    found, pairs = await _entries(etcd, keys)
    entries = []
    for kv in pairs:
        _, incarnation, number = keys.parse(kv.key)
        entries.append(Written(kv.mod_revision, incarnation, number, kv.value))
    return found, entries


async def _entries(etcd: Etcd, keys: Keyspace) -> tuple[Look, list[KeyValue]]:
    """All entries that the log still holds, by position, with what else was there at that moment."""
    found = await look(etcd, keys)
    record = servable(found, keys, KNOWN, even_sealed=True, even_copy=True)
    applied: Mapping[str, int] = {}
    if record.previous is not None:
        applied = await applied_in(etcd, keys, record.previous.name) or {}
    return found, await entries_after(etcd, keys, applied, found)


async def _snapshots(
    etcd: Etcd, keys: Keyspace, current: SnapshotRef | None, previous: SnapshotRef | None
) -> list[dict[str, Any]]:
    result = await etcd.range(Get(keys.snapshots, keys.snapshots_end, keys_only=True), TIMEOUT)
    pages: dict[str, int] = {}
    for kv in ours(keys, result.kvs):
        name = kv.key[len(keys.snapshots) :].decode(errors="replace").partition("/")[0]
        pages[name] = pages.get(name, 0) + 1
    named = {ref.name: (ref, what) for ref, what in ((previous, "previous"), (current, "current")) if ref}
    rows = []
    for name in sorted({*pages, *named}):
        ref, what = named.get(name, (None, "unnamed: left over, or being written"))
        rows.append(
            {
                "name": name,
                "is": what,
                "pages": pages.get(name, 0),
                "bytes": ref.bytes if ref else None,
                "nodes": ref.nodes if ref else None,
                "sessions": ref.sessions if ref else None,
            }
        )
    return rows


def _clock(value: bytes) -> int:
    try:
        return decode_entry(value).clock
    except BadValue:
        return 0


def _row(keys: Keyspace, kv: KeyValue) -> dict[str, Any]:
    _, incarnation, number = keys.parse(kv.key)
    entry: Entry | None = None
    error = ""
    try:
        entry = decode_entry(kv.value)
    except BadValue as bad:
        error = str(bad)
    return {
        "position": kv.mod_revision,
        "proxy": incarnation,
        "number": number,
        "clock": date(entry.clock) if entry else "",
        "bytes": len(kv.value),
        "requests": [_request(request) for request in entry.requests] if entry else [],
        "error": error,
    }


def _request(request: Request) -> dict[str, Any]:
    """A request, decoded as far as that goes."""
    shown: dict[str, Any] = {"kind": Kind(request.kind).name, "session": hex64(request.session_id)}
    if request.kind != Kind.CLIENT:
        try:
            fields = _BODIES[Kind(request.kind)](request.body)
        except BadValue as error:
            shown["error"] = str(error)
        else:
            shown.update({name: value for name, value in fields._asdict().items() if name != _SECRET})
        return shown
    shown["operation"] = constant_name(request.opcode)
    operation = EXTENDED.writes.get(request.opcode)
    if operation is None:
        return shown
    try:
        fields = operation.decode(request.body, 0)[0]
    except Exception as error:  # noqa: BLE001 - whatever a client has sent
        shown["error"] = f"{type(error).__name__}: {error}"
        return shown
    if isinstance(fields, list):
        shown["parts"] = [f"{constant_name(kind.opcode)} {_path(part)}" for kind, part in fields]
    else:
        shown["path"] = _path(fields)
    return shown


def _path(fields: object) -> str:
    """The path among an operation's fields: an attribute, the first of a tuple, or the whole."""
    if isinstance(fields, str):
        return fields
    path = getattr(fields, "path", None)
    if path is None and isinstance(fields, tuple) and fields:
        path = fields[0]
    return path if isinstance(path, str) else ""


def _line(request: dict[str, Any]) -> str:
    rest = {name: value for name, value in request.items() if name not in ("kind", "session")}
    if request["kind"] == "CLIENT":
        what = [rest.pop("operation"), str(rest.pop("path", ""))]
        if "parts" in rest:
            what.append("[" + ", ".join(rest.pop("parts")) + "]")
    else:
        what = [request["kind"]]
    what += [f"{name}=0x{value:x}" if name in _ZXIDS else f"{name}={value}" for name, value in rest.items()]
    return f"{request['session']}  {' '.join(filter(None, what))}"


def _of_log(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tail",
        type=values.positive,
        default=20,
        metavar="N",
        help="number of entries to show, counted from the end",
    )


def _sizes(tree: Tree, _given: Any) -> Output:
    return tree.ask(partial(sizes, read_metrics=tree.access.metrics_reader(tree.access.tls())))


PROGRAMS = {
    "proxies": Program(lambda tree, _given: tree.ask(proxies)),
    "log": Program(lambda tree, given: tree.ask(partial(tail, count=given.tail)), _of_log),
    "sizes": Program(_sizes),
}
