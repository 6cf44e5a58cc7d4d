"""The log, its snapshots and the living proxies as JSON."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from codec.longs import hex64
from console.walks.pacing import Pace
from proxy.admin.facts import Facts
from proxy.state.machine import CHECKPOINT_EVERY
from schema.record import SnapshotRef

_LONG = 1e9  # seconds; before a proxy had caught up with etcd for the first time its age is infinite


def log_facts(facts: Facts, monotonic: float) -> dict[str, Any]:
    """The log as this proxy sees it. `monotonic`: the clock that snapshots are timed by, in seconds."""
    subject = facts.subject
    log, snapshots, machine = subject.log_status(), subject.source.snapshots(), subject.machine
    stats, record, status = log.stats, log.record, subject.source.etcd_status()
    written = snapshots.stats.written_at
    return {
        "head": status.revision if status else None,
        "applied": log.position,
        "backlog": log.backlog,
        "ageMs": int(min(log.age, _LONG) * 1000),
        "zxid": hex64(machine.zxid),
        "entries": machine.entries,
        "level": machine.level,
        "digest": f"{machine.last_checkpoint[1]:016x}",
        "digestAt": machine.last_checkpoint[0],
        "sent": {
            "entries": stats.sent_entries,
            "requests": stats.sent_requests,
            "bytes": stats.sent_bytes,
            "again": stats.resent,
            "replaced": stats.replaced,
            "inFlight": log.unanswered,
        },
        "received": {
            "entries": stats.applied_entries,
            "requests": stats.applied_requests,
            "bytes": stats.applied_bytes,
        },
        "reloads": stats.reloads,
        "disagreements": stats.disagreements,
        "full": log.is_full,
        "sinceSnapshot": {"bytes": snapshots.log_bytes, "requests": snapshots.log_requests},
        "overdueMs": int(snapshots.overdue * 1000),
        "snapshotSeenMs": int((monotonic - written) * 1000) if written else None,
        "snapshotsWritten": snapshots.stats.written,
        "snapshotsFailed": snapshots.stats.failed,
        "current": _snapshot(record.current if record else None),
        "previous": _snapshot(record.previous if record else None),
        "etcd": {
            "bytes": status.db_size,
            "inUse": status.db_size_in_use,
            "alarms": list(status.errors or ()),
            "silenceMs": int(subject.contact.silence * 1000),
        }
        if status
        else None,
    }


def _snapshot(ref: SnapshotRef | None) -> dict[str, Any] | None:
    if ref is None:
        return None
    return {
        "name": ref.name,
        "position": ref.position,
        "writer": ref.writer,
        "pages": ref.node_pages + ref.session_pages + 1,
        "bytes": ref.bytes,
        "nodes": ref.nodes,
        "sessions": ref.sessions,
        "zxid": hex64(ref.zxid),
        "digest": f"{ref.digest:016x}",
    }


async def proxies(facts: Facts, now: int, pace: Pace) -> dict[str, Any]:
    """The living proxies, the eldest first. `now`: milliseconds since 1970."""
    subject = facts.subject
    log, machine = subject.log_status(), subject.machine
    attached: Counter[str] = Counter()
    for session in list(machine.sessions.values()):
        attached[session.incarnation] += 1
        await pace.rest()
    rows = []
    for place, proxy in enumerate(log.living):
        own = proxy.incarnation == log.incarnation
        lag = None if own else log.peers.get(proxy.incarnation)
        rows.append(
            {
                "incarnation": proxy.incarnation,
                "eldest": place == 0,
                "self": own,
                "since": proxy.revision,
                "levels": list(proxy.value.levels),
                "version": proxy.value.version,
                "host": proxy.value.home.host,
                "listen": proxy.value.home.listen,
                "admin": proxy.value.home.admin,
                "peers": proxy.value.peer_port.address,
                "startedMs": proxy.value.home.started or None,
                "sessions": attached[proxy.incarnation],
                "lastEntry": machine.applied.get(proxy.incarnation, 0),
                "behind": log.backlog if own else lag.behind if lag else None,
                "heardMs": 0 if own else max(0, now - lag.heard) if lag else None,
                "ageMs": int(min(log.age, _LONG) * 1000) if own else None,
            }
        )
    return {
        "rows": rows,
        "combined": log.combined._asdict(),
        "resolution": CHECKPOINT_EVERY,
        "copy": _copy(facts.copy()),
        "clockSkewMs": int(log.peers.clock_skew * 1000),
        "orphans": sum(
            count
            for name, count in attached.items()
            if name not in {proxy.incarnation for proxy in log.living}
        ),
    }


def _copy(found: Mapping[str, int]) -> dict[str, Any] | None:
    """How far a tree that follows another one is behind it."""
    if not found:
        return None
    zxid = hex64(found["copy_zxid"])
    return {"zxid": zxid, "behind": found.get("copy_behind"), "lagMs": found.get("copy_lag_ms")}
