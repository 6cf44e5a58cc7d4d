"""What operators can learn about a server, as plain values: words and HTTP commands only format them.

Names and units are those of ZooKeeper (ServerStats, ServerCnxn, ZooKeeperServer.registerMetrics). Everything
is read at the moment of the request, and nothing walks the tree. Facts about single clients are in `clients`.
"""

import os
import platform
import resource
from collections.abc import Iterable
from typing import Any

from codec.constants import OpCode
from proxy.admin.clients import Clients
from proxy.admin.subject import Subject
from proxy.log.status import Freshness, Offers
from proxy.state.ops import ROWS
from proxy.support.latency import MILLISECOND, Histogram
from proxy.support.user import host_name
from proxy.version import BUILT, RELEASE

VERSION = f"{RELEASE}, built on {BUILT}"
# What ZooKeeper says when it is up but has no quorum (AbstractFourLetterCommand, Commands.runCommand).
NOT_SERVING = "This ZooKeeper instance is not currently serving requests"
_LONG = 1e9  # seconds; before a proxy had caught up with etcd for the first time its age is infinite
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))


#: The requests that each op_count_* of ZooKeeper 3.10 counts (FinalRequestProcessor). Those of Keeper count
#: with ZooKeeper's that do the same. A reconfig never succeeds, so it does not count.
OPERATIONS: dict[str, tuple[int, ...]] = {
    name: tuple(opcode for opcode, row in ROWS.items() if row.counted == name)
    for name in sorted({row.counted for row in ROWS.values()} - {""})
} | {"create_session": (OpCode.CREATE_SESSION,), "ping": (OpCode.PING,), "reconfig": ()}


def _folder() -> str:
    """The current directory; empty if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


_FOLDER = _folder()  # the process never changes it


class Facts:
    """Everything that operators may ask of one server."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.clients = Clients(subject)
        # ZooTrace's default. The mask is kept and reported as in ZooKeeper, but zketcd logs nothing by it.
        self.trace_mask = 306
        self._packets_before = 0, 0  # received and sent
        self._counted_before = dict.fromkeys(self._counted(), 0)

    # -- health --------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether clients should connect to this server."""
        return not self.why_not_ready

    @property
    def why_not_ready(self) -> str:
        """Why clients should not connect to this server; "" if they should."""
        contact = self.subject.contact
        if contact.why_gone:
            return contact.why_gone
        if contact.is_copy and not self.subject.config.read_only_mode:
            return (
                "the tree follows another one: it is served after `zketcd follow --finish`, and before it"
                " with --read-only-mode on"
            )
        is_alone = contact.is_alone and self.subject.log_status().standby_silence is not None
        if not (self.subject.handshake.is_open or is_alone):
            return "this proxy is loading the tree, or stopping"
        if contact.freshness is Freshness.PAST:
            return ""
        if not contact.in_touch:
            return contact.why_not_in_touch
        if contact.is_behind:
            return "this proxy applies what etcd has delivered, and clients wait for that"
        log = self.subject.log_status()
        if contact.is_copy or log.is_registered:
            return ""
        full = ": etcd's quota is used up, and it grants no lease" if log.is_full else ""
        return f"this proxy is not registered in etcd, so it cannot open or continue sessions{full}"

    @property
    def is_readable(self) -> bool:
        """Whether the state may be seen: it is what the log says, if maybe old."""
        return self.subject.contact.offers is not Offers.NOTHING

    @property
    def read_only(self) -> bool:
        """Whether clients are served read-only: without etcd, a copy of another tree, or the past."""
        subject, contact = self.subject, self.subject.contact
        is_allowed = subject.config.read_only_mode or contact.freshness is Freshness.PAST
        return is_allowed and subject.handshake.is_open and contact.offers is Offers.READS

    @property
    def takes_new_clients(self) -> bool:
        """Whether they get sessions, if only read-only ones; else this is as a ZooKeeper without a quorum."""
        return self.ready or self.read_only

    @property
    def state(self) -> str:
        """ZooKeeper's word for what this server is among the others: docs/decisions/0040."""
        log = self.subject.log_status()
        if self.read_only:
            return "read-only"
        if len(log.living) < 2:
            return "standalone"
        return "leader" if log.is_eldest else "follower"

    def leader(self) -> dict[str, Any]:
        """Who leads, as the HTTP command has it. No server has an id here, so the leader's is 0 as well."""
        log = self.subject.log_status()
        eldest = log.living.get(log.living.eldest)
        if eldest is None or len(log.living) < 2:
            return {"error": "server is not initialized"}
        return {"is_leader": log.is_eldest, "leader_id": 0, "leader_ip": eldest.value.home.host}

    # -- the tree ------------------------------------------------------------------------------------------

    @property
    def znodes(self) -> int:
        """ZooKeeper counts its root twice: DataTree holds it as "" and as "/"."""
        return len(self.subject.machine.tree.nodes) + 1

    @property
    def ephemerals_count(self) -> int:
        """Ephemeral nodes of all sessions."""
        return sum(map(len, self.subject.machine.tree.ephemerals.values()))

    @property
    def data_size(self) -> int:
        """Bytes that etcd's database takes on its member's disk, as it last reported; 0 before it has."""
        status = self.subject.source.etcd_status()
        return 0 if status is None else status.db_size

    # -- statistics ----------------------------------------------------------------------------------------

    def packets(self) -> tuple[int, int]:
        """(received, sent) since the start or the last `srst`."""
        counters, (received, sent) = self.subject.counters, self._packets_before
        return counters.received - received, counters.sent - sent

    def reset_server(self) -> None:
        """Start the server's statistics anew (srst: ServerStats.reset)."""
        counters = self.subject.counters
        self._packets_before = counters.received, counters.sent
        self.subject.latency.reset()
        self._counted_before = self._counted()

    def statistics(self) -> dict[str, Any]:
        """ServerStats as the HTTP commands give it."""
        subject = self.subject
        received, sent = self.packets()
        latency = subject.latency
        return {
            "packets_sent": sent,
            "packets_received": received,
            "fsync_threshold_exceed_count": 0,  # zketcd writes no files
            "client_response_stats": self.response_sizes(),
            "data_dir_size": self.data_size,
            "log_dir_size": self.data_size,
            "last_processed_zxid": self.subject.machine.zxid,
            "outstanding_requests": subject.log_status().outstanding,
            "server_state": self.state,
            "avg_latency": latency.average,
            "max_latency": latency.maximum,
            "min_latency": latency.minimum,
            "num_alive_client_connections": len(subject.connections),
            "uptime": self._uptime(),
            "auth_failed_count": subject.counters.auth_failed,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
            "provider_null": False,
        }

    def response_sizes(self) -> dict[str, int]:
        """BufferStats of a server that has sent nothing: measuring each reply would cost each reply."""
        return dict.fromkeys(("last_buffer_size", "min_buffer_size", "max_buffer_size"), -1)

    def monitor(self) -> dict[str, int | float | str]:
        """The values of `mntr`, in ZooKeeper's names where they mean the same, without the prefix "zk_"."""
        subject = self.subject
        machine = subject.machine
        received, sent = self.packets()
        latency = subject.latency
        counted = self._counted()
        return {
            "version": VERSION,
            "server_state": self.state,
            "ephemerals_count": self.ephemerals_count,
            "num_alive_connections": len(subject.connections),
            "avg_latency": latency.average,
            "outstanding_requests": subject.log_status().outstanding,
            "znode_count": self.znodes,
            "global_sessions": len(machine.sessions),
            "packets_sent": sent,
            "packets_received": received,
            "connection_drop_probability": 0.0,
            "watch_count": subject.watches.total(),
            "auth_failed_count": subject.counters.auth_failed,
            "min_latency": latency.minimum,
            "max_file_descriptor_count": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "approximate_data_size": machine.tree.data_size,
            "open_file_descriptor_count": _open_files(),
            "local_sessions": 0,
            "uptime": self._uptime(),
            "max_latency": latency.maximum,
            **self._followers(),
            **{name: count - self._counted_before[name] for name, count in counted.items()},
            **_summary("readlatency", latency.recent(updates=False)),
            **_summary("updatelatency", latency.recent(updates=True)),
            **_summary("jvm_pause_time_ms", subject.process.pauses),
            **self._own(),
            **self.copy(),
        }

    def _followers(self) -> dict[str, int]:
        """What a leader reports of the others, by the names of ZooKeeper 3.9 and, last, of 3.4 and Keeper."""
        if self.state != "leader":
            return {}
        others = len(self.subject.log_status().living) - 1
        return dict.fromkeys(("learners", "synced_followers", "followers"), others)

    def _counted(self) -> dict[str, int]:
        """ZooKeeper's counters that have a meaning here, since the start."""
        counters = self.subject.counters
        changes = self.subject.machine.transaction
        operations = {f"op_count_{name}": self._answered(opcodes) for name, opcodes in OPERATIONS.items()}
        return {
            **operations,
            "op_count_total": sum(operations.values()),
            "ttl_node_created_count": changes.ttl_nodes_created,
            "ttl_node_deleted_count": changes.ttl_nodes_deleted,
            "connection_rejected": counters.rejected,
            "connection_request_count": counters.connect_requests,
            "sessionless_connections_expired": counters.sessionless_expired,
        }

    def _answered(self, opcodes: Iterable[int]) -> int:
        """Requests of these kinds since the start, without refused writes, as in ZooKeeper."""
        latency = self.subject.latency
        return sum(
            latency.by_opcode[opcode].count - latency.refused[opcode]
            for opcode in opcodes
            if opcode in latency.by_opcode
        )

    def _own(self) -> dict[str, int]:
        """What `mntr` reports beyond ZooKeeper's values."""
        log = self.subject.log_status()
        stats = log.stats
        return {
            "etcd_in_touch": int(self.subject.contact.in_touch),
            "log_position": log.position,
            "log_staleness_ms": int(min(log.age, _LONG) * 1000),
            "log_entries_appended": stats.sent_entries,
            "log_requests_appended": stats.sent_requests,
            "log_entries_applied": stats.applied_entries,
            "log_requests_applied": stats.applied_requests,
            "log_long_requests": stats.long_requests,
            "log_long_requests_ms": int(stats.long_seconds * 1000),
            "log_searches_refused": self.subject.machine.transaction.searches_refused,
            "log_reloads": stats.reloads,
            "log_digest_disagreements": stats.disagreements,
        }

    def copy(self) -> dict[str, int]:
        """How far the tree is behind the one that it follows; empty if it follows none."""
        if not self.subject.contact.is_copy:
            return {}
        log = self.subject.log_status()
        zxid = {"copy_zxid": self.subject.machine.zxid}
        if log.lag is None or not log.lag.level_ms:
            return zxid
        age = max(0, int(self.subject.clock.time() * 1000) - log.lag.level_ms)
        return {**zxid, "copy_behind": log.lag.behind, "copy_lag_ms": age}

    def _uptime(self) -> int:
        return int((self.subject.clock.time() - self.subject.started) * 1000)

    # -- settings ------------------------------------------------------------------------------------------

    def configuration(self) -> dict[str, int | str]:
        """ZooKeeperServerConf, in the HTTP command's names and order."""
        config = self.subject.config
        return {
            "client_port": self.subject.ports.number,
            "data_dir": config.data_dir,
            "data_log_dir": config.data_dir,
            "tick_time": config.tick_time,
            "max_client_cnxns": config.max_client_connections,
            "min_session_timeout": config.min_session_timeout,
            "max_session_timeout": config.max_session_timeout,
            "server_id": 0,
            "client_port_listen_backlog": -1,
        }


def _open_files() -> int:
    # Since Linux 6.2 that is the size of the directory; to list 50,000 of them takes 20 ms.
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))


def _summary(name: str, histogram: Histogram) -> dict[str, int | float]:
    """ZooKeeper's AvgMinMaxPercentileCounter, in whole milliseconds; extremes and quantiles by bucket."""
    count = histogram.count
    taken = [place for place, number in enumerate(histogram.buckets) if number]
    return {
        f"avg_{name}": round(histogram.total / count / MILLISECOND, 4) if count else 0.0,
        f"min_{name}": (1 << taken[0]) // 2 // MILLISECOND if taken else 0,
        f"max_{name}": (1 << taken[-1]) // MILLISECOND if taken else 0,
        f"cnt_{name}": count,
        f"sum_{name}": histogram.total // MILLISECOND,
        **{f"{label}_{name}": histogram.quantile(share) // MILLISECOND for label, share in _QUANTILES},
    }


def environment() -> dict[str, str]:
    """Names and values, in ZooKeeper's order."""
    page = os.sysconf("SC_PAGE_SIZE")
    free, total = os.sysconf("SC_AVPHYS_PAGES") * page >> 20, os.sysconf("SC_PHYS_PAGES") * page >> 20
    return {
        "zookeeper.version": VERSION,
        "host.name": host_name(),
        "python.version": platform.python_version(),
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": os.environ.get("USER", str(os.getuid())),
        "user.home": os.environ.get("HOME", ""),
        "user.dir": _FOLDER,
        "os.memory.free": f"{free}MB",
        "os.memory.max": f"{total}MB",
        "os.memory.total": f"{total}MB",
    }
