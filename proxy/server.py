"""The server: connects the parts, starts them in order, and drains them at the end."""

import asyncio
import hashlib
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

from codec.constants import ErrorCode
from proxy.admin.state_source import StateSource
from proxy.admin.top import log_busiest
from proxy.base_server import BaseServer
from proxy.config import Config
from proxy.etcd.interface import Etcd
from proxy.etcd.status_poller import ReadMetrics, StatusPoller
from proxy.frontend.certificates import TlsContext
from proxy.frontend.handshake import Handshake
from proxy.frontend.limits import LIMITS, Limits
from proxy.frontend.read_only import ReadOnlySessions
from proxy.frontend.request_logs import Stages
from proxy.frontend.session_timer import SessionTimer
from proxy.log.context import Context, LogSettings
from proxy.log.follow.log_order import EntriesGone
from proxy.log.log import Log
from proxy.log.slices import in_slices
from proxy.log.status import Stats
from proxy.log.upkeep.node_expiry import NodeExpiry, Pace
from proxy.log.upkeep.snapshots import RunWriter, Snapshots
from proxy.sasl.login import Login
from proxy.state.expiry import Expiry
from proxy.state.level import KNOWN
from proxy.state.outcome import Disagreement
from proxy.state.pause import LENGTHS, Lengths
from proxy.support.environment import HOST, Environment
from proxy.support.ports import BoundedPort, Bounds
from proxy.traces.span import Tracer
from proxy.version import RELEASE
from schema.entry import Rules
from schema.keys import Keyspace
from schema.record import Home, PeerPort

log = logging.getLogger(__name__)

_DRAIN_TIMEOUT = 10.0  # seconds for requests in the log when the server stops
_LOAD_TIMEOUT = 10.0  # seconds for an etcd that does not answer, if another process serves meanwhile
_SESSIONS = "look after the sessions"


class Tuning(NamedTuple):
    """Numbers that no operator sets. A simulation varies them."""

    levels: Collection[int] = KNOWN  # that this release knows
    lengths: Lengths = LENGTHS  # how long work on the state may be
    window: tuple[int, int] = LogSettings().window  # appends in flight, at least and at most
    limits: Limits = LIMITS  # of one connection


class Server(BaseServer):
    """One proxy."""

    # The attributes are what the program, the console, a handover and the simulation need of a server.

    # More than seven parameters: what is made outside of the server and may be missing or another in a test.
    def __init__(
        self,
        config: Config,
        etcd: Etcd,
        run_writer: RunWriter,
        tls: TlsContext | None = None,
        login: Login | None = None,
        tracer: Tracer | None = None,
        environment: Environment = HOST,
        read_metrics: ReadMetrics | None = None,
        home: Home = Home(),  # noqa: B008 - immutable
        peer_port: PeerPort = PeerPort(),  # noqa: B008 - immutable
        tuning: Tuning = Tuning(),  # noqa: B008 - immutable
    ) -> None:
        """`run_writer`: runs the snapshot writer. `tls`, `login`: for clients, if any.

        `tracer`: takes the spans of clients' requests, if any. `environment`: clocks and randomness.
        `read_metrics`: those of an etcd at HOST:PORT, None if it shows none. `home`: where this proxy runs.
        `peer_port`: where it will take the entries of others, if it does (`take_entries`).
        """
        super().__init__(config, tls, login, environment, tuning.limits)
        machine, sessions, time = self.machine, self.sessions, self._loop.time

        # The replicated log.
        settings = LogSettings(
            home=home,
            peer_port=peer_port,
            lease_seconds=config.proxy_lease,
            rules=_rules(config, has_tls=tls is not None, has_sasl=login is not None),
            version=RELEASE,
            max_staleness=config.max_staleness,
            standby_within=config.standby_within,
            archives=bool(config.archive.url),
            reserve=config.etcd_reserve,
            levels=tuning.levels,
            lengths=tuning.lengths,
            window=tuning.window,
        )
        context = Context(etcd, Keyspace(config.prefix), self._tasks, machine, Stats(), settings, environment)
        self.log = Log(
            context, self.watches, sessions, self.stopped_serving, self.disagreed, self.entries_gone
        )
        self._status_poller = StatusPoller(
            etcd, self._learned_space, self.log.head.learned_versions, read_metrics, environment.clock
        )
        self.snapshots = Snapshots(
            self.log,
            run_writer,
            self._status_poller.look,
            least_bytes=config.snapshot_log_bytes,
            least_requests=config.snapshot_log_requests,
        )
        node_expiry = NodeExpiry(
            self.log,
            Expiry(config.container_max_never_used),
            Pace(config.container_check_interval, config.container_max_per_minute),
            time,
        )

        # Clients and operators.
        read_only = ReadOnlySessions(machine, sessions, self.log.contact, time, environment.randomness)
        handshake = Handshake(self.log, sessions, read_only if config.read_only_mode else None, self._loop)
        applier = self.log.applier
        source = StateSource(
            self.log,
            applier.worker,
            submit=self.log.outbox.submit_all,
            stages=lambda: Stages(int(applier.sent_at * 1e9), int(applier.worker.began * 1e9)),
            position=lambda: applier.position,
            before_flush=self._judge_standby if config.standby_within else None,
            look=self.log.follower.staleness.look,
            recent=self.log.recent,
            snapshots=self.snapshots.facts,
            etcd_status=lambda: self._status_poller.status,
            etcd_calls=etcd.calls,
        )
        self._serve(source, handshake, tracer)
        self.log.follower.staleness.fell_behind = self.state_gate.fell_behind
        sessions.submit = self.log.outbox.submit

        # Work without which the server cannot continue.
        timer = SessionTimer(self.log, sessions, handshake, read_only, self.connections, self._interval)
        self._periodic: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            _SESSIONS: timer.run,
            "delete containers and TTL nodes that are due": node_expiry.run,
            "write snapshots": self.snapshots.run,
        }
        self._running: dict[str, asyncio.Task[None]] = {}

    # -- life ----------------------------------------------------------------------------------------------

    async def start(
        self,
        progress: Callable[[int], None],
        listener: socket.socket | None = None,
        secure: socket.socket | None = None,
        take: Callable[[], Awaitable[Mapping[str, socket.socket]]] | None = None,
        reading: Callable[[], None] = lambda: None,
    ) -> None:
        """Listen, load the state, follow the log until caught up with etcd, then give clients sessions.

        Until then clients get what a ZooKeeper without a quorum gives them: four-letter words are answered,
        connections that ask for a session are closed.

        `listener`: a bound socket to listen on, in place of one for the configured address; `secure`: one
        that takes only TLS. `take` takes clients over from another process, and returns such sockets by name;
        they listen already, and nothing is accepted before. `reading` is called when read-only sessions are
        given, if the tree follows another one; this returns when it is complete.
        """
        if take is None:
            await self._listen(listener, secure)
        await self.log.load(progress, None if take is None else _LOAD_TIMEOUT)
        await self.log.start(partial(self._follows, reading))
        self._handshake.is_open = True
        self._begin(*self._periodic)
        self._tasks.start(self._status_poller.run(), "ask etcd for its status")
        if self._config.top.log and self._config.top.sample:
            self._tasks.start(log_busiest(self.sampling), "log the busiest paths")
        if self.log.context.settings.peer_port.address:
            for_peers = None if self._tls is None else self._tls.for_peers
            self._tasks.start(self.log.combining.run(for_peers), "hand entries to the proxy that combines")
        if take is not None:
            taken = await take()
            await self._listen(taken.get("main"), taken.get("secure"))
            await in_slices(self.sessions.look_after_all, self.log.context.environment.clock)
        self.log.propose_budgets(self._config.budget)
        if self.request_logs is not None:
            self.request_logs.server("serverStart")

    def _follows(self, reading: Callable[[], None]) -> None:
        """The tree follows another one: give read-only sessions, if the operator wants them."""
        if self._config.read_only_mode:
            self._handshake.is_open = True
            self._begin(_SESSIONS)
            reading()

    async def take_entries(self, listener: socket.socket) -> None:
        """Take the entries of other proxies at a bound socket. Raises OSError that names the address."""
        tls = None if self._tls is None else await asyncio.to_thread(self._tls.for_listener, asks=False)
        most = self.shares.peers // 4  # the others are for proxies that have said which one they are
        self.log.combining.listen(BoundedPort(listener, Bounds(most, most // 2), "other proxies", tls))

    def _begin(self, *names: str) -> None:
        """Begin periodic work that has not begun."""
        for name in names:
            if name not in self._running:
                self._running[name] = self._tasks.start(self._periodic[name](), name)

    def _learned_space(self, in_use: int, quota: int) -> float:
        return self.log.learned_space(in_use, quota, self.snapshots.log_bytes)

    @property
    def must_match(self) -> dict[str, str]:
        """What a process that takes over must have in common with this one: etcd, and options by name."""
        config = self._config
        addresses = {
            option: "none" if address is None else f"{address[0]}:{address[1]}"
            for option, address in config.addresses.items()
        }
        if config.peer_listen is None:  # the new process may have one, and binds it
            del addresses["--peer-listen"]
        return {"--prefix": config.prefix, "etcd cluster": f"{self.machine.cluster_id:x}", **addresses}

    @property
    def users(self) -> str:
        """A hash of the options that make a client a super user or a user of SASL."""
        sasl = self._config.sasl
        who = sorted(sasl.users.items()), sorted(sasl.super_users), sasl.principal, sasl.naming
        return hashlib.sha256(repr((self._config.super_digest, who)).encode()).hexdigest()

    def freeze(self) -> None:
        """Take nothing from clients, and no new clients, until `thaw`: another process takes over."""
        self.ports.suspend()
        self.connections.freeze()
        self.sessions.hold()

    async def thaw(self) -> None:
        """Continue."""
        await self.ports.resume()
        self.connections.thaw()
        self.sessions.release()

    async def failed(self) -> BaseException:
        """Wait for a fault after which the server cannot continue."""
        # The tasks are not awaited themselves: a caller that stops waiting must not end them.
        of_log = self._tasks.start(self.log.failed(), "wait for a failure of the log")
        await asyncio.wait((*self._running.values(), of_log), return_when=asyncio.FIRST_COMPLETED)
        for name, task in self._running.items():
            if task.done():
                return task.exception() or RuntimeError(f"the task to {name} ended")
        fault: BaseException = await of_log
        return fault

    async def stop(self) -> None:
        """Stop accepting, answer the requests that are here, close the connections. Sessions stay alive."""
        self._drain()
        self.sessions.hold()
        self.log.recent.wake()
        if not await self.log.drain(_DRAIN_TIMEOUT):
            outstanding = self.log.outbox.outstanding
            log.warning("etcd did not answer in time; %d requests stay unanswered", outstanding)
        await self._close_clients()
        for task in self._running.values():
            task.cancel()
        await self.log.combining.close()
        await self.log.stop()
        await self._tasks.close()

    async def kill(self, session_id: int, who: str) -> int:
        """End a session of the tree in the name of an administrator; the error, or 0."""
        if self.log.is_copy:
            return ErrorCode.NOT_READ_ONLY
        if self.connections.are_frozen:  # another process takes over: it may answer, this one may end before
            return ErrorCode.CONNECTION_LOSS
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.log.outbox.submit(self.sessions.kill(session_id, who, outcome.set_result))
        return await asyncio.shield(outcome)

    # -- what the log reports ------------------------------------------------------------------------------

    def stopped_serving(self, reason: str) -> None:
        """The state may be old or wrong: close all connections."""
        log.error("closing all connections: %s", reason)
        for connection in self.connections:
            connection.close()

    def _judge_standby(self) -> None:
        """Outcomes are about to be sent. If this process stood still, the standby may be silent by now."""
        staleness = self.log.follower.staleness
        if staleness.standby.is_silent:
            self.connections.abort()
            staleness.judge()

    def disagreed(self, disagreement: Disagreement) -> None:
        """The digest of another proxy differs from ours."""
        self._tasks.start(self.snapshots.judge(disagreement), "find out whose digest is right")

    def entries_gone(self, gone: EntriesGone) -> None:
        """Entries that had taken effect were deleted from the log."""
        self.snapshots.entries_gone(gone)


def _rules(config: Config, *, has_tls: bool, has_sasl: bool) -> Rules:
    """What the requests of this proxy's clients may do."""
    rules = Rules(0)
    for rule, wanted in (
        (Rules.EXTENDED_TYPES, config.extended_types),
        (Rules.ENFORCE_QUOTA, config.enforce_quota),
        (Rules.KEEPER, config.keeper_extensions),
        (Rules.X509, has_tls),
        (Rules.SASL, has_sasl),
    ):
        if wanted:
            rules |= rule
    return rules
