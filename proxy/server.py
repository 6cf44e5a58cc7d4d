"""The server as a whole: puts the parts together, starts them in order, and drains them at the end."""

import asyncio
import contextlib
import logging
import random
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence

from codec.packets import ConnectRequest
from proxy.acl import Caller
from proxy.admin.facts import Facts
from proxy.admin.four_letter import FourLetterWords
from proxy.auth.scheme import Settings
from proxy.auth.schemes import offer
from proxy.auth.x509 import X509
from proxy.batch import Request
from proxy.certificates import TlsContext
from proxy.committer import Committer
from proxy.config import Config
from proxy.connection import Connection
from proxy.counters import Counters
from proxy.door import Door
from proxy.draft import Entry, SessionRecord
from proxy.etcd.calls import Calls
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError
from proxy.etcd.pulse import Pulse
from proxy.feed import Feed
from proxy.handshake import Handshake
from proxy.latency import Latency
from proxy.leases import OUTAGE, Leases
from proxy.load import Load
from proxy.mirror import Mirror
from proxy.operation import Reading
from proxy.ops import EXTENDED, FEATURES, PLAIN
from proxy.ops.features import system_nodes
from proxy.ops.session import END, END_IF_GONE
from proxy.read_only import ReadOnlySessions
from proxy.reaper import Pace, Reaper
from proxy.repeated import Repeated
from proxy.rules import Rules
from proxy.sessions import Session, Sessions
from proxy.tasks import Tasks
from proxy.watches import HeldWatches, WatchTable
from schema.keys import Keyspace

log = logging.getLogger(__name__)

_DRAIN_TIMEOUT = 10.0  # seconds for what is in flight when the server stops
_CLOSE_TIMEOUT = 1.0  # seconds for clients to take their last replies
_CLEAN_UP_DELAY = 0.2  # seconds within which one proxy or another clears up after a session
_CLEAN_UP_RETRY = 1.0  # seconds between tries to do so


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that holds the address but does not listen yet. Raises OSError that names the address."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener


class Server:
    """One proxy. Connections see it as their `Host`, the mirror as its `Listener`."""

    def __init__(self, config: Config, etcd: Etcd, tls: TlsContext | None = None) -> None:
        """`tls`: for clients, if there is any."""
        self.config = config
        self.incarnation = secrets.token_hex(8)
        self.started = time.time()
        self._etcd = etcd
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        keys = Keyspace(config.prefix)
        self.watches = WatchTable()
        self.mirror = Mirror(keys, self.watches, self)
        self.counters = Counters()
        self.load = Load(config.global_outstanding_limit)
        self._tls = tls
        self.auth = offer(
            () if tls is None else (X509.name,),
            Settings(config.super_digest or None, config.tls.super_user or None),
        )
        self.reading = Reading(self.mirror.tree, self.watches)
        self.operations = EXTENDED if config.keeper_extensions else PLAIN
        self.latency = Latency((*self.operations.reads, *self.operations.writes))
        if config.keeper_extensions:
            self.mirror.tree.system.update(system_nodes(FEATURES, config.max_frame, config.availability_zone))
        self.sessions = Sessions(config.min_session_timeout, config.max_session_timeout)
        self.committer = Committer(
            self.mirror,
            etcd,
            keys,
            self.incarnation,
            self._tasks,
            self._watches_of,
            rules=Rules(config.extended_types, config.enforce_quota, self._quota_exceeded),
        )
        self.feed = Feed(etcd, keys, self.mirror)
        self._leases = Leases(
            etcd,
            keys,
            self.mirror,
            self.sessions,
            self.incarnation,
            config.tick_time,
            self._expire,
            self._tasks,
        )
        self._reaper = Reaper(
            self.mirror,
            self.committer,
            self.incarnation,
            Pace(
                config.container_check_interval,
                config.container_max_per_minute,
                config.container_max_never_used,
            ),
        )
        self._handshake = Handshake(
            self.mirror, self.committer, etcd, self.sessions, self.incarnation, self._loop
        )
        self.pulse = Pulse(etcd)
        self._read_only = ReadOnlySessions(
            self.sessions, config.tick_time, lambda: self.mirror.zxid, lambda: self.in_touch
        )
        self.connections: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        self._places = 0  # taken by connections and by clients that are about to be one
        self._crowd = Repeated(log)
        self._listening: list[asyncio.Server | Door] = []
        self.port = 0  # that of --listen, once it is open
        self._draining = False
        self._all_gone = asyncio.Event()
        self.received = 0  # of connections that are gone; the living count their own
        self.sent = 0
        self.submit = self.committer.submit
        self.facts = Facts(self)
        self._over_quota: dict[str, Repeated] = {}  # by the quota's path
        self._words = FourLetterWords(self.facts, config.four_letter_words)

    @property
    def zxid(self) -> int:
        """The zxid that the mirror has reached."""
        return self.mirror.zxid

    def unchanged_since(self, path: str, zxid: int) -> bool:
        """Whether a read of this node alone would have been answered the same at `zxid`."""
        return self.mirror.unchanged_since(path, zxid)

    @property
    def in_touch(self) -> bool:
        """Whether etcd has been heard of lately; what we know may be old otherwise, and writes wait."""
        return self.silence <= OUTAGE

    @property
    def silence(self) -> float:
        """Seconds since etcd was last heard of."""
        return max(0.0, self._loop.time() - self._etcd.last_contact)

    @property
    def etcd_calls(self) -> Calls:
        """How etcd answers."""
        return self._etcd.calls

    @property
    def serving(self) -> bool:
        """Whether the tree is loaded and clients are let in."""
        return bool(self._listening) and not self._draining

    # -- life ----------------------------------------------------------------------------------------------

    async def start(
        self,
        progress: Callable[[int], None],
        listener: socket.socket | None = None,
        secure: socket.socket | None = None,
    ) -> None:
        """Load the tree, follow etcd, end sessions that ran out while no proxy lived, then listen.

        `listener`: a bound socket to listen on, in place of one for the configured address; `secure`: one for
        TLS alone.
        """
        await self.feed.load(progress)
        self._feeding = self._tasks.start(self.feed.run(), "follow etcd")
        await self.feed.live.wait()
        await self._leases.register_in_time()
        await self._leases.sweep()
        await asyncio.gather(*(self._clean_up(session_id) for session_id in self._orphans()))
        self._caring = self._tasks.start(self._leases.run(), "look after the sessions")
        self._reaping = self._tasks.start(self._reaper.run(), "reap containers and TTL nodes")
        self._tasks.start(self.pulse.run(), "ask etcd how it is")
        self._tasks.start(self._read_only.run(), "look after the read-only sessions")
        listener = listener or bound_socket(self.config.host, self.config.port)
        self.port = listener.getsockname()[1]
        if self._tls is None or self.config.tls.listen == "off":
            self._listening.append(
                await self._loop.create_server(lambda: self.connection(False), sock=listener, backlog=1024)
            )
        else:
            self._open_door(self._tls, listener, plain=self.config.tls.listen == "detect")
        if self._tls is not None:
            self._tasks.start(self._tls.follow(), "follow the certificates")
            if secure is not None:
                self._open_door(self._tls, secure, plain=False)

    def connection(self, admitted: bool) -> Connection:
        """A connection to be; `admitted`: it has its place already."""
        connection = Connection(self, self._loop, self.config.max_frame)
        connection.admitted = admitted
        return connection

    def _open_door(self, tls: TlsContext, listener: socket.socket, *, plain: bool) -> None:
        door = Door(self, self._loop, self._tasks, lambda: tls.current, plain=plain)
        door.open(listener)
        self._listening.append(door)

    async def failed(self) -> BaseException:
        """Wait for a fault that the server cannot go on with."""
        # Not awaited itself: whoever gives up waiting for a failure must not end the feed by that.
        ended, _ = await asyncio.wait(
            (self._feeding, self._caring, self._reaping), return_when=asyncio.FIRST_COMPLETED
        )
        task = ended.pop()
        return task.exception() or RuntimeError(f"the task to {task.get_name()} ended")

    async def stop(self) -> None:
        """Stop accepting, finish what is in flight, close the connections. Sessions stay alive for others."""
        self._draining = True
        self._reaping.cancel()
        for listening in self._listening:
            listening.close()
        for connection in list(self.connections):
            connection.drain()
        try:
            await asyncio.wait_for(self.committer.drain(), _DRAIN_TIMEOUT)
        except TimeoutError:
            log.warning(
                "etcd did not answer in time; %d requests stay unanswered", self.committer.outstanding
            )
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), _CLOSE_TIMEOUT)
        try:
            await self._leases.retire()
        except EtcdError as error:
            log.warning("could not take this proxy's keys away: %s", error)
        await self._tasks.close()

    # -- connections ---------------------------------------------------------------------------------------

    def admit(self, address: str) -> bool:
        """Give one more client from an address its place, unless that is one too many (maxClientCnxns)."""
        limit = self.config.max_client_connections
        if limit and self._addresses[address] >= limit:
            self.counters.rejected += 1
            self._crowd.warn("too many connections from %s: more than %d", address, limit)
            return False
        limit = self.config.max_connections
        if limit and self._places >= limit:
            self.counters.rejected += 1
            self._crowd.warn("too many connections: more than %d", limit)
            return False
        self._addresses[address] += 1
        self._places += 1
        return True

    def release(self, address: str) -> None:
        """Take back what `admit` gave."""
        self._places -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    def opened(self, connection: Connection) -> bool:
        """Count a new connection; False if there are too many, or the server stops."""
        self.connections.add(connection)
        connection.admitted = connection.admitted or self.admit(connection.address)
        return connection.admitted and not self._draining

    def gone(self, connection: Connection) -> None:
        """Forget a connection."""
        self.connections.discard(connection)
        if self._draining and not self.connections:
            self._all_gone.set()
        if connection.admitted:
            self.release(connection.address)
        self.received += connection.received
        self.sent += connection.sent

    def attach(self, connection: Connection, request: ConnectRequest) -> None:
        """Find or make the session of a connection.

        While etcd is out of reach a client without a session is sent to look elsewhere, as by a ZooKeeper
        without a quorum, unless it may be served read-only.
        """
        if not self.in_touch:
            if self._may_read_only(connection, request):
                self._read_only.serve(connection, request)
                return
            if request.session_id == 0:
                connection.turn_away()
                return
        greeting = self._tasks.start(self._handshake.greet(connection, request), "greet a client")
        if self._may_read_only(connection, request) and request.session_id == 0:
            waiting = self._read_only.stand_by(greeting, connection, request)
            self._tasks.start(waiting, "greet a client that may be served read-only")

    def _may_read_only(self, connection: Connection, request: ConnectRequest) -> bool:
        """Whether a client may be served read-only, should etcd be out of reach."""
        return self.config.read_only_mode and bool(request.read_only) and not connection.is_keepers

    def four_letter_word(self, word: bytes, rest: bytes) -> bytes | None:
        """The answer to a four-letter word and what came with it, None if it is none."""
        return self._words.answer(word, rest)

    def _quota_exceeded(self, path: str, message: str) -> None:
        trouble = self._over_quota.get(path)
        if trouble is None:
            trouble = self._over_quota[path] = Repeated(log)
        trouble.warn("quota of %s exceeded: %s", path, message)

    # -- sessions ------------------------------------------------------------------------------------------

    def _watches_of(self, session_id: int) -> HeldWatches | None:
        """What a session of this proxy watches."""
        session = self.sessions.get(session_id)
        if session is None or session.connection is None:
            return None
        return self.watches.held_by(session.connection)

    def session_ended(self, session: Session, closer: Connection) -> None:
        """A client closed its session, and etcd knows."""
        self.sessions.drop(session.id)
        if session.connection is not None and session.connection is not closer:
            session.connection.close()  # the closeSession came by an older connection
        self._tasks.start(self._revoke(session.id), "revoke a lease")

    def _expire(self, session: Session) -> None:
        self.counters.sessions_expired += 1
        log.info("session 0x%x expired", session.id)
        self._tasks.start(self._end(session), "end a session")

    async def _end(self, session: Session) -> None:
        caller = Caller(session.id, ())
        done = await self.committer.commit(
            lambda done: Request(END, self.incarnation, caller, 100, done, of_session=False)
        )
        if done.refusal is not None:
            log.info("session 0x%x is not ours to end: %s", session.id, done.refusal.name)
        self.sessions.drop(session.id)
        if session.connection is not None:
            session.connection.close()
        if done.refusal is None:
            await self._revoke(session.id)

    async def _revoke(self, session_id: int) -> None:
        try:
            await self._etcd.lease_revoke(session_id, 5.0)
        except EtcdError as error:
            log.debug("lease of session 0x%x: %s", session_id, error)  # it runs out by itself

    def _orphans(self) -> set[int]:
        return self.mirror.tree.orphans(self.mirror.sessions)

    async def _clean_up(self, session_id: int) -> None:
        """Remove the ephemerals of a session whose lease has run out; of very many, some at a time."""
        caller = Caller(session_id, ())
        while session_id in self.mirror.tree.ephemerals and session_id not in self.mirror.sessions:
            done = await self.committer.commit(
                lambda done: Request(END_IF_GONE, None, caller, 100, done, of_session=False)
            )
            if done.refusal is not None:
                log.warning("cannot clear up after session 0x%x: %s", session_id, done.refusal.name)
                await asyncio.sleep(_CLEAN_UP_RETRY)

    async def _clean_up_soon(self, session_id: int) -> None:
        await asyncio.sleep(random.uniform(0, _CLEAN_UP_DELAY))
        await self._clean_up(session_id)

    # -- the mirror's listener -----------------------------------------------------------------------------

    def session_changed(self, session_id: int, record: SessionRecord | None) -> None:
        """A session's record changed in etcd: it ended, ran out, or went to another proxy."""
        session = self.sessions.get(session_id)
        if record is None:
            if session is not None and not session.ending:
                self.sessions.drop(session_id)
                if session.connection is not None:
                    session.connection.close()
            if session_id in self.mirror.tree.ephemerals:
                self._tasks.start(self._clean_up_soon(session_id), "clear up after a session")
        elif session is not None and record.value.owner != self.incarnation:
            self.sessions.drop(session_id)
            if session.connection is not None:
                session.connection.close()

    def marked(self, marker: bytes, value: bytes) -> dict[bytes, Entry] | None:
        """A Txn's marker has come; whose it is, the committer knows."""
        return self.committer.marked(marker, value)

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        """A component of some proxy's Txn has lost a race."""
        self.committer.lost(number, incarnation, paths)

    def applied(self, revision: int) -> None:
        """The mirror has applied a revision."""
        self.committer.applied(revision)
