"""A herd: thousands of clients that connect in one moment, as after a network failure or a restart.

Three times for each server: all clients are new; they come back with their sessions after a restart; and
after another restart half of them come back, and as many new ones come with them. Without and with TLS.
Servers take turns, a round each, and every figure is the median of the rounds.
"""

import select
import socket
import ssl
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench import costs, wire
from bench.errors import BadReply, Stalled
from bench.load import HOST, STALL_SECONDS
from bench.scenarios import Cell, Table
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.process import ServerProcess
from lab.servers.tls import Authority

SIZE = 3000
ROUNDS = 3
TIMEOUT_MS = 120_000  # no session ends while the machine is slow
RESPONSE_SIZE = 41
PAUSE = 0.2
"""Seconds until a client tries again whose connection was closed before it had a session."""
ARRIVALS = ("new", "back after a restart", "half of them back, half new")


class Client:
    """One client: a socket that is not waited for, and the session, once there is one."""

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        self.session = 0
        self.password = bytes(16)
        self.socket: socket.socket | None = None
        self._timeout_ms = timeout_ms
        self._sent = False
        self._received = b""

    def connect(self, port: int) -> int:
        """Begin to connect; the descriptor."""
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex((HOST, port))
        self._sent = False
        self._received = b""
        return self.socket.fileno()

    def go_on(self, context: ssl.SSLContext | None) -> bool:
        """Do what the socket is ready for, with TLS if so; whether the client has its session now.

        Raises OSError if the server has closed the connection, BadReply if it has refused the session.
        """
        sock = self.socket
        assert sock is not None
        try:
            if not self._sent:
                if context is not None:
                    if not isinstance(sock, ssl.SSLSocket):
                        sock = self.socket = context.wrap_socket(
                            sock, do_handshake_on_connect=False, server_hostname=HOST
                        )
                    sock.do_handshake()
                sock.send(wire.connect_packet(self._timeout_ms, self.session, self.password))
                self._sent = True
                return False
            data = sock.recv(RESPONSE_SIZE - len(self._received))
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        if not data:
            raise ConnectionResetError
        self._received += data
        if len(self._received) < RESPONSE_SIZE:
            return False
        session, password = wire.session_of(self._received)
        if not session or self.session not in (0, session):
            raise BadReply(f"session {self.session:#x} was refused, or is another one: {session:#x}")
        self.session, self.password = session, password
        return True

    def close(self) -> None:
        """Close the connection; the session lives on."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def arrive(clients: Sequence[Client], port: int, context: ssl.SSLContext | None) -> list[float]:
    """Connect all clients at once; for each the seconds until it had its session.

    A client whose connection is closed before that comes again. Raises Stalled and BadReply.
    """
    waiting: dict[int, int] = {}  # descriptor -> index
    seconds = [0.0] * len(clients)
    again: list[tuple[float, int]] = []  # when, index
    left = len(clients)
    begun = time.perf_counter()
    with select.epoll() as poller:

        def connect(index: int) -> None:
            descriptor = clients[index].connect(port)
            waiting[descriptor] = index
            # Edge-triggered: with TLS a writable socket may wait for the server.
            poller.register(descriptor, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

        for index in range(len(clients)):
            connect(index)
        heard = time.perf_counter()
        while left:
            ready = poller.poll(PAUSE)
            now = time.perf_counter()
            while again and again[0][0] <= now:
                connect(again.pop(0)[1])
            if ready:
                heard = now
            elif now - heard > STALL_SECONDS:
                raise Stalled(f"nothing for {STALL_SECONDS:.0f} s for {left} clients without a session")
            for descriptor, _ in ready:
                if descriptor not in waiting:
                    continue  # it has its session
                index = waiting[descriptor]
                client = clients[index]
                try:
                    if client.go_on(context):
                        seconds[index] = now - begun
                        del waiting[descriptor]
                        left -= 1
                except OSError:
                    del waiting[descriptor]
                    client.close()
                    again.append((now + PAUSE, index))
    return seconds


class Kind(NamedTuple):
    """A server to measure."""

    name: str
    tls: bool


class Arrival(NamedTuple):
    """What one arrival of the herd took."""

    half: float
    """Seconds until half of the clients had their sessions."""
    back: float
    """Seconds until all had that came with one."""
    all: float
    """Seconds until all had one."""
    cpu: float
    """CPU time of the server and its etcd, in ms a client."""


def measure(kind: Kind, size: int, authority: Authority) -> list[Arrival]:
    """One server, from its first start: the arrivals of ARRIVALS."""
    with ExitStack() as stack:
        server, others = _start(kind, authority, stack)
        context = authority.client_context() if kind.tls else None
        clients = [Client() for _ in range(size)]
        found = []
        for arrival in ARRIVALS:
            if arrival != ARRIVALS[0]:
                server.stop()
                for client in clients:
                    client.close()
                server.start()
            if arrival == ARRIVALS[2]:
                # In turns: the new ones are no later.
                clients = [Client() if index % 2 else client for index, client in enumerate(clients)]
            come_back = [bool(client.session) for client in clients]
            processes = [*costs.process_tree(server.pid), *others]
            before = costs.cpu_seconds(processes)
            seconds = arrive(clients, server.port, context)
            spent = costs.cpu_seconds(processes) - before
            returned = [each for each, back in zip(seconds, come_back, strict=True) if back]
            half = statistics.median(seconds)
            found.append(Arrival(half, max(returned, default=0.0), max(seconds), spent / len(clients) * 1000))
        for client in clients:
            client.close()
        return found


def _start(kind: Kind, authority: Authority, stack: ExitStack) -> tuple[ServerProcess, list[int]]:
    """The server, and the processes besides it that work for it."""
    pair = authority.issue("server", HOST)
    if kind.name == "zketcd":
        etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS))
        server = ZketcdServer(
            etcd.endpoint,
            max_client_connections=0,
            max_session_timeout=TIMEOUT_MS,
            tls_cert=pair.cert if kind.tls else None,
            tls_key=pair.key if kind.tls else None,
            tls_client_auth="none" if kind.tls else None,
        )
        return stack.enter_context(server), [etcd.pid]
    # By default 50 clients may wait to be accepted; the kernel lets those beyond them wait for up to a minute
    settings = {"clientPortListenBacklog": "4096"}
    tls = {"ssl.clientAuth": "none", "ssl.keyStore.location": str(pair.both), "ssl.keyStore.type": "PEM"}
    properties = {
        "zookeeper.serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "zookeeper.client.portUnification": "true",
    }
    oracle = ZooKeeperServer(
        max_client_connections=0,
        max_session_timeout=TIMEOUT_MS,
        java_options=(),
        settings={**settings, **tls} if kind.tls else settings,
        system_properties=properties if kind.tls else None,
    )
    return stack.enter_context(oracle), []


def run(scale: float) -> Table:
    """3,000 clients in three rounds at scale 1; fewer clients, and one round, below a tenth."""
    size = max(10, round(SIZE * scale))
    rounds = ROUNDS if scale >= 0.1 else 1
    kinds = [Kind(name, tls) for tls in (False, True) for name in ("zookeeper", "zketcd")]
    found: dict[tuple[Kind, str], list[Arrival]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        for _ in range(rounds):
            for kind in kinds:
                for arrival, figures in zip(ARRIVALS, measure(kind, size, authority), strict=True):
                    found[kind, arrival].append(figures)
    rows: list[list[Cell]] = []
    for arrival in ARRIVALS:
        for kind in kinds:
            half, back, every, cpu = (
                statistics.median(column) for column in zip(*found[kind, arrival], strict=True)
            )
            label = f"{kind.name}, TLS" if kind.tls else kind.name
            rows.append([label, arrival, half, back or "", every, cpu])
    return Table(
        f"{size:,} clients that connect at once",
        [
            "server",
            "clients",
            "half have sessions, s",
            "all that came back have, s",
            "all have, s",
            "CPU, ms a client",
        ],
        rows,
    )
