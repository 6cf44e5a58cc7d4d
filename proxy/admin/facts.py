"""What there is to tell of a server, as plain values: the words and the HTTP commands only give them a form.

Names and units are those of ZooKeeper (ServerStats, ServerCnxn, ZooKeeperServer.registerMetrics). All is
gathered when it is asked for, and nothing walks the tree.
"""

import os
import platform
import resource
import socket
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from codec.constants import KeeperFeature, OpCode
from codec.jute import Acl
from proxy.etcd.model import Status
from proxy.latency import MILLISECOND, Histogram
from proxy.ops import FEATURES
from schema.paths import ROOT

if TYPE_CHECKING:
    from proxy.connection import Connection
    from proxy.server import Server

VERSION = "3.9.3-zketcd-0.1.0, built on 2026-11-21 00:00 UTC"
STATE = "standalone"
_FOLDER = os.getcwd()  # of the process: it stays

# FinalRequestProcessor's names for what a client asked last.
_OPERATIONS: dict[int, str] = {
    OpCode.PING: "PING",
    OpCode.CREATE_SESSION: "SESS",
    OpCode.CLOSE_SESSION: "CLOS",
    OpCode.MULTI: "MULT",
    OpCode.MULTI_READ: "MLTR",
    OpCode.CREATE: "CREA",
    OpCode.CREATE2: "CREA",
    OpCode.CREATE_TTL: "CREA",
    OpCode.CREATE_CONTAINER: "CREA",
    OpCode.DELETE: "DELE",
    OpCode.DELETE_CONTAINER: "DELE",
    OpCode.SET_DATA: "SETD",
    OpCode.SET_ACL: "SETA",
    OpCode.RECONFIG: "RECO",
    OpCode.SYNC: "SYNC",
    OpCode.CHECK: "CHEC",
    OpCode.EXISTS: "EXIS",
    OpCode.GET_DATA: "GETD",
    OpCode.SET_WATCHES: "SETW",
    OpCode.SET_WATCHES2: "STW2",
    OpCode.ADD_WATCH: "ADDW",
    OpCode.GET_ACL: "GETA",
    OpCode.GET_CHILDREN: "GETC",
    OpCode.GET_CHILDREN2: "GETC",
    OpCode.GET_ALL_CHILDREN_NUMBER: "GETACN",
    OpCode.CHECK_WATCHES: "CHKW",
    OpCode.REMOVE_WATCHES: "REMW",
    OpCode.WHO_AM_I: "HOMI",
    OpCode.GET_EPHEMERALS: "GETE",
}
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))


class Facts:
    """All that operators may ask of one server."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        # ZooTrace's default. Kept and told, as ZooKeeper's, but zketcd logs nothing by it.
        self.trace_mask = 306
        self._counted_before = dict.fromkeys(self._counted(), 0)

    # -- the server ----------------------------------------------------------------------------------------

    @property
    def in_touch(self) -> bool:
        """Whether etcd has been heard of lately."""
        return self.server.in_touch

    @property
    def serving(self) -> bool:
        """Whether the tree is loaded and clients are let in."""
        return self.server.serving

    @property
    def ready(self) -> bool:
        """Whether clients should come here."""
        return self.serving and self.in_touch

    @property
    def root_acl(self) -> Sequence[Acl]:
        """Who may do what with the root node."""
        return self.server.mirror.tree.nodes[ROOT].acl

    @property
    def read_only(self) -> bool:
        """Whether etcd is out of reach and clients are served read-only meanwhile."""
        return self.server.config.read_only_mode and not self.in_touch

    @property
    def features(self) -> Collection[KeeperFeature]:
        """Those of ClickHouse Keeper that clients are offered."""
        return FEATURES if self.server.operations.extended else ()

    @property
    def zxid(self) -> int:
        """The zxid that the mirror has reached."""
        return self.server.zxid

    @property
    def revision(self) -> int:
        """The etcd revision that the mirror has reached."""
        return self.server.mirror.revision

    @property
    def znodes(self) -> int:
        """ZooKeeper counts its root twice: DataTree holds it as "" and as "/"."""
        return len(self.server.mirror.tree.nodes) + 1

    @property
    def ephemerals_count(self) -> int:
        """Ephemeral nodes of all sessions."""
        return sum(map(len, self.server.mirror.tree.ephemerals.values()))

    @property
    def data_size(self) -> int:
        """Bytes that etcd's database takes on its member's disk, as it last told; 0 before it has."""
        status = self.etcd
        return 0 if status is None else status.db_size

    @property
    def etcd(self) -> Status | None:
        """What etcd said of itself some seconds ago; None before it has."""
        return self.server.pulse.status

    def packets(self) -> tuple[int, int]:
        """(received, sent) since the start or the last `srst`."""
        server = self.server
        received = server.received + sum(connection.received for connection in server.connections)
        return received, server.sent + sum(connection.sent for connection in server.connections)

    def reset_server(self) -> None:
        """Start the server's statistics anew (srst: ServerStats.reset)."""
        server = self.server
        received, sent = self.packets()
        server.received -= received
        server.sent -= sent
        server.latency.reset()
        self._counted_before = self._counted()

    def reset_connections(self) -> None:
        """Start the statistics of the connections anew (crst: ServerCnxn.resetStats); the server's go on."""
        server = self.server
        for connection in server.connections:
            server.received += connection.received
            server.sent += connection.sent
            connection.received = connection.sent = 0
            connection.latency.reset()

    def statistics(self) -> dict[str, Any]:
        """ServerStats as the HTTP commands give it."""
        server = self.server
        received, sent = self.packets()
        latency = server.latency
        return {
            "packets_sent": sent,
            "packets_received": received,
            "fsync_threshold_exceed_count": 0,  # nothing is synced to a disk here
            "client_response_stats": self.response_sizes(),
            "data_dir_size": self.data_size,
            "log_dir_size": self.data_size,
            "last_processed_zxid": self.zxid,
            "outstanding_requests": server.committer.outstanding,
            "server_state": STATE,
            "avg_latency": latency.average,
            "max_latency": latency.maximum,
            "min_latency": latency.minimum,
            "num_alive_client_connections": len(server.connections),
            "uptime": self._uptime(),
            "auth_failed_count": server.counters.auth_failed,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
            "provider_null": False,
        }

    def response_sizes(self) -> dict[str, int]:
        """BufferStats as it is while nothing has been noted: a note for each reply would cost each reply."""
        return dict.fromkeys(("last_buffer_size", "min_buffer_size", "max_buffer_size"), -1)

    def monitor(self) -> dict[str, int | float | str]:
        """What `mntr` tells, in ZooKeeper's names where they mean the same, without the prefix "zk_"."""
        server = self.server
        tree = server.mirror.tree
        received, sent = self.packets()
        latency = server.latency
        counted = self._counted()
        return {
            "version": VERSION,
            "server_state": STATE,
            "ephemerals_count": self.ephemerals_count,
            "num_alive_connections": len(server.connections),
            "avg_latency": latency.average,
            "outstanding_requests": server.committer.outstanding,
            "znode_count": self.znodes,
            "global_sessions": len(server.mirror.sessions),
            "packets_sent": sent,
            "packets_received": received,
            "connection_drop_probability": 0.0,
            "watch_count": server.watches.total(),
            "auth_failed_count": server.counters.auth_failed,
            "min_latency": latency.minimum,
            "max_file_descriptor_count": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "approximate_data_size": tree.data_size,
            "open_file_descriptor_count": _open_files(),
            "local_sessions": 0,
            "uptime": self._uptime(),
            "max_latency": latency.maximum,
            **{name: count - self._counted_before[name] for name, count in counted.items()},
            **_summary("readlatency", latency.recent(updates=False)),
            **_summary("updatelatency", latency.recent(updates=True)),
            **self._own(),
        }

    def _counted(self) -> dict[str, int]:
        """ZooKeeper's counters that mean something here, since the start."""
        counters = self.server.counters
        return {
            "connection_rejected": counters.rejected,
            "connection_request_count": counters.connect_requests,
            "sessionless_connections_expired": counters.sessionless_expired,
        }

    def _own(self) -> dict[str, int]:
        server = self.server
        committer = server.committer
        revisions, seconds = committer.lag()
        return {
            "etcd_in_touch": int(server.in_touch),
            "etcd_txns": committer.txns,
            "etcd_committed_requests": committer.committed,
            "etcd_conflicts": committer.conflicts,
            "etcd_revision": server.mirror.revision,
            "mirror_reloads": server.feed.reloads,
            "mirror_lag_revisions": revisions,
            "mirror_lag_ms": int(seconds * 1000),
        }

    def _uptime(self) -> int:
        return int((time.time() - self.server.started) * 1000)

    # -- connections and sessions --------------------------------------------------------------------------

    def connections(self, *, brief: bool) -> list[dict[str, Any]]:
        """Every connection as ServerCnxn.getConnectionInfo has it."""
        return [_connection(connection, brief=brief) for connection in self.server.connections]

    def session_expiry(self) -> dict[int, list[int]]:
        """This server's sessions by the time when they expire if nothing is heard (ms of a monotonic clock).

        Rounded up to the next tick, as ZooKeeper's ExpiryQueue has them.
        """
        tick = self.server.config.tick_time
        expiry: dict[int, list[int]] = {}
        for session in self.server.sessions:
            due = int(session.heard * 1000) + session.timeout_ms
            expiry.setdefault((due // tick + 1) * tick, []).append(session.id)
        return dict(sorted(expiry.items()))

    def connection_expiry(self) -> dict[int, list["Connection"]]:
        """The connections by the time when they are closed if nothing is heard, in the same manner."""
        server = self.server
        tick = server.config.tick_time
        expiry: dict[int, list[Connection]] = {}
        for connection in server.connections:
            expiry.setdefault((int(connection.due * 1000) // tick + 1) * tick, []).append(connection)
        return dict(sorted(expiry.items()))

    def ephemerals(self) -> dict[int, list[str]]:
        """The ephemeral nodes of every session of the tree, also of other proxies."""
        return {session: sorted(paths) for session, paths in self.server.mirror.tree.ephemerals.items()}

    # -- watches -------------------------------------------------------------------------------------------

    def watch_summary(self) -> tuple[int, int, int]:
        """(connections, paths, watches), of data watches only, as ZooKeeper's words have it."""
        return self.server.watches.counts()

    def watches_by_session(self) -> dict[int, list[str]]:
        """The paths that each session has data watches on."""
        held = self.server.watches.paths_by_watcher()
        return {watcher.session_id: sorted(paths) for watcher, paths in held.items()}

    def watches_by_path(self) -> dict[str, list[int]]:
        """The sessions with data watches on each path."""
        held = self.server.watches.watchers_by_path()
        return {path: [watcher.session_id for watcher in watchers] for path, watchers in held.items()}

    # -- settings ------------------------------------------------------------------------------------------

    def configuration(self) -> dict[str, int | str]:
        """ZooKeeperServerConf, in the HTTP command's names and order."""
        server = self.server
        config = server.config
        return {
            "client_port": server.port,
            "data_dir": config.data_dir,
            "data_log_dir": config.data_dir,
            "tick_time": config.tick_time,
            "max_client_cnxns": config.max_client_connections,
            "min_session_timeout": config.min_session_timeout,
            "max_session_timeout": config.max_session_timeout,
            "server_id": 0,
            "client_port_listen_backlog": -1,
        }

    @property
    def secure_port(self) -> int:
        """The port that is for TLS alone; -1 if there is none."""
        secure = self.server.config.tls.secure
        return secure[1] if secure else -1

    @property
    def prefix(self) -> str:
        """Where the tree lies in etcd."""
        return self.server.config.prefix

    def environment(self) -> dict[str, str]:
        """Environment.list, as far as there is such a thing without a JVM."""
        page = os.sysconf("SC_PAGE_SIZE")
        free, total = os.sysconf("SC_AVPHYS_PAGES") * page >> 20, os.sysconf("SC_PHYS_PAGES") * page >> 20
        return {
            "zookeeper.version": VERSION,
            "host.name": socket.gethostname(),
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


def operation_name(opcode: int | None) -> str:
    """What ZooKeeper calls an operation in `lop`; of Keeper's own the number."""
    return "NA" if opcode is None else _OPERATIONS.get(opcode, str(opcode))


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _connection(connection: "Connection", *, brief: bool) -> dict[str, Any]:
    info: dict[str, Any] = {
        "remote_socket_address": f"{connection.address}:{connection.port}",
        "interest_ops": int(not connection.is_closed),
        "outstanding_requests": connection.outstanding,
        "packets_received": connection.received,
        "packets_sent": connection.sent,
    }
    if not brief:
        latency = connection.latency
        opcode, zxid, nanos, ended = latency.last
        session = connection.session
        info |= {
            "session_id": connection.session_id,
            "last_operation": operation_name(opcode),
            "established": int(connection.since * 1000),
            "session_timeout": 0 if session is None else session.timeout_ms,
            "last_cxid": latency.last_xid,
            "last_zxid": zxid,
            "last_response_time": ended // MILLISECOND,
            "last_latency": nanos // MILLISECOND,
            "min_latency": latency.minimum,
            "avg_latency": latency.average,
            "max_latency": latency.maximum,
        }
    return info


def _summary(name: str, histogram: Histogram) -> dict[str, int | float]:
    """ZooKeeper's AvgMinMaxPercentileCounter, in whole milliseconds; extremes and quantiles by bucket."""
    count = histogram.count
    taken = [place for place, number in enumerate(histogram.buckets) if number]
    return {
        f"avg_{name}": round(histogram.nanos / count / MILLISECOND, 4) if count else 0.0,
        f"min_{name}": (1 << taken[0]) // 2 // MILLISECOND if taken else 0,
        f"max_{name}": (1 << taken[-1]) // MILLISECOND if taken else 0,
        f"cnt_{name}": count,
        f"sum_{name}": histogram.nanos // MILLISECOND,
        **{f"{label}_{name}": histogram.quantile(share) // MILLISECOND for label, share in _QUANTILES},
    }
