"""ZooKeeper's four-letter words, with the fields and units of its own output (package server.command)."""

import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.connection import Connection
    from proxy.server import Server

# What ZooKeeper says when it is up but has no quorum (AbstractFourLetterCommand).
_NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
VERSION = "3.9.3-zketcd-0.1.0, built on 2026-11-21 00:00 UTC"


class FourLetterWords:
    """Answers four-letter words about one server."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._words: dict[bytes, Callable[[], Iterator[str]]] = {
            b"ruok": self._ruok,
            b"srvr": self._srvr,
            b"stat": self._stat,
            b"mntr": self._mntr,
            b"isro": self._isro,
            b"conf": self._conf,
            b"cons": self._cons,
            b"wchs": self._wchs,
            b"envi": self._envi,
        }

    def answer(self, word: bytes) -> bytes | None:
        """The answer to a word; None if it is none of ours."""
        command = self._words.get(word)
        return None if command is None else "".join(command()).encode()

    def _ruok(self) -> Iterator[str]:
        yield "imok" if self._server.in_touch else _NOT_SERVING

    def _isro(self) -> Iterator[str]:
        yield "rw" if self._server.in_touch else "null"

    def _znodes(self) -> int:
        """ZooKeeper counts its root twice: DataTree holds it as "" and as "/"."""
        return len(self._server.mirror.tree.nodes) + 1

    def _packets(self) -> tuple[int, int]:
        server = self._server
        received = server.received + sum(connection.received for connection in server.connections)
        return received, server.sent + sum(connection.sent for connection in server.connections)

    def _srvr(self) -> Iterator[str]:
        yield f"Zookeeper version: {VERSION}\n"
        yield from self._figures()

    def _figures(self) -> Iterator[str]:
        server = self._server
        received, sent = self._packets()
        latency = server.latency
        yield f"Latency min/avg/max: {latency.minimum(sent)}/{latency.average(sent)}/{latency.high}\n"
        yield f"Received: {received}\nSent: {sent}\n"
        yield f"Connections: {len(server.connections)}\n"
        yield f"Outstanding: {server.committer.outstanding}\n"
        yield f"Zxid: 0x{server.zxid:x}\nMode: standalone\n"
        yield f"Node count: {self._znodes()}\n"

    def _stat(self) -> Iterator[str]:
        yield f"Zookeeper version: {VERSION}\nClients:\n"
        for connection in self._server.connections:
            yield f" {_describe(connection)}\n"
        yield "\n"
        yield from self._figures()

    def _cons(self) -> Iterator[str]:
        for connection in self._server.connections:
            session = connection.session
            details = "" if session is None else f",sid=0x{session.id:x},to={session.timeout_ms}"
            yield f" {_describe(connection)[:-1]}{details})\n"
        yield "\n"

    def _conf(self) -> Iterator[str]:
        config = self._server.config
        yield f"clientPort={self._server.port}\n"
        yield f"dataDir={config.data_dir}\ndataLogDir={config.data_dir}\n"
        yield f"tickTime={config.tick_time}\nmaxClientCnxns={config.max_client_connections}\n"
        yield f"minSessionTimeout={config.min_session_timeout}\n"
        yield f"maxSessionTimeout={config.max_session_timeout}\n"
        yield f"clientPortListenBacklog=-1\nserverId=0\nprefix={config.prefix}\n"

    def _envi(self) -> Iterator[str]:
        """What clients ask for the version (kazoo's server_version); there is no JVM to tell of."""
        yield f"Environment:\nzookeeper.version={VERSION}\nhost.name={socket.gethostname()}\n"
        yield f"os.name={platform.system()}\nos.arch={platform.machine()}\nos.version={platform.release()}\n"
        yield f"user.dir={os.getcwd()}\npython.version={platform.python_version()}\n"

    def _wchs(self) -> Iterator[str]:
        connections, paths, watches = self._server.watches.counts()
        yield f"{connections} connections watching {paths} paths\nTotal watches:{watches}\n"

    def _mntr(self) -> Iterator[str]:
        server = self._server
        tree = server.mirror.tree
        received, sent = self._packets()
        figures: dict[str, object] = {
            "version": VERSION,
            "server_state": "standalone",
            "avg_latency": server.latency.average(sent),
            "max_latency": server.latency.high,
            "min_latency": server.latency.minimum(sent),
            "packets_received": received,
            "packets_sent": sent,
            "num_alive_connections": len(server.connections),
            "outstanding_requests": server.committer.outstanding,
            "znode_count": self._znodes(),
            "watch_count": server.watches.total(),
            "ephemerals_count": sum(map(len, tree.ephemerals.values())),
            "approximate_data_size": tree.data_size,
            "open_file_descriptor_count": _open_files(),
            "uptime": int((time.time() - server.started) * 1000),
            "etcd_in_touch": int(server.in_touch),
            "etcd_txns": server.committer.txns,
            "etcd_committed_requests": server.committer.committed,
            "etcd_conflicts": server.committer.conflicts,
            "etcd_revision": server.mirror.revision,
            "mirror_reloads": server.feed.reloads,
        }
        for name, value in figures.items():
            yield f"zk_{name}\t{value}\n"


def _describe(connection: "Connection") -> str:
    counts = f"queued={connection.outstanding},recved={connection.received},sent={connection.sent}"
    return f"/{connection.address}:{connection.port}[{int(not connection.is_closed)}]({counts})"


def _open_files() -> int:
    if sys.platform != "linux":
        return -1
    return len(os.listdir("/proc/self/fd"))
