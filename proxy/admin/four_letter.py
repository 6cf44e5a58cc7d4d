"""ZooKeeper's four-letter words, with the fields and units of its own output (package server.command).

The values come from `facts` and `clients`; here they get ZooKeeper's form. Keeper's own words are
in `keeper_words`.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from codec.longs import hex64
from proxy.admin.facts import NOT_SERVING, VERSION, Facts, environment
from proxy.admin.keeper_words import KeeperAnswers
from proxy.frontend.connection import ConnectionFacts
from proxy.options.words import KNOWN, WORDS
from proxy.state.pause import NO_PAUSE, Pause
from proxy.support.addresses import socket_address

_Item = TypeVar("_Item")

# What a telnet sends when it ends; ZooKeeper knows it as a word that it never executes.
_TELNET_CLOSE = b"\xff\xf4\xff\xfd"


class FourLetterWords:
    """Answers four-letter words about one server."""

    def __init__(self, facts: Facts, allowed: frozenset[str]) -> None:
        """`allowed` are the words that may be asked."""
        self._facts = facts
        self._allowed = allowed

    def allows(self, word: str) -> bool:
        """Whether a word is one of those that may be asked."""
        return word in self._allowed

    def answer(self, word: bytes, rest: bytes = b"", pause: Pause = NO_PAUSE) -> Iterator[str] | None:
        """The answer to a word and what came with it, line by line; None if no server has such a word.

        Clients may connect and disconnect between two lines, and when a line calls `pause`.
        """
        if word == _TELNET_CLOSE:
            if self._allowed == KNOWN:
                return None
            return iter(("telnet close is not executed because it is not in the whitelist.\n",))
        name = word.decode("latin-1")
        known = WORDS.get(name)
        if known is None:
            return None
        if name not in self._allowed:
            return iter((f"{name} is not executed because it is not in the whitelist.\n",))
        if not (known.without_quorum or self._facts.takes_new_clients):
            return iter((NOT_SERVING if name == "hash" else f"{NOT_SERVING}\n",))
        return Answers(self._facts, rest, pause).to(name)


class Answers(KeeperAnswers):
    """The answers to words that may be asked: a method for each, by its name."""

    def __init__(self, facts: Facts, rest: bytes, pause: Pause) -> None:
        super().__init__(facts)
        self._rest = rest
        self._pause = pause

    def to(self, word: str) -> Iterator[str]:
        """The answer to a word that is known, line by line."""
        lines: Iterator[str] = getattr(self, f"_{word}")()
        return lines

    # -- health --------------------------------------------------------------------------------------------

    def _ruok(self) -> Iterator[str]:
        """The process lives, and its event loop has its turns; no more."""
        yield "imok"

    def _isro(self) -> Iterator[str]:
        facts = self._facts
        yield "ro" if facts.read_only else "rw" if facts.takes_new_clients else "null"

    # -- figures -------------------------------------------------------------------------------------------

    def _head(self) -> Iterator[str]:
        yield f"Zookeeper version: {VERSION}\n"
        if self._facts.read_only:
            yield "READ-ONLY mode; serving only read-only clients\n"

    def _srvr(self) -> Iterator[str]:
        yield from self._head()
        yield from self._figures()

    def _stat(self) -> Iterator[str]:
        yield from self._head()
        yield "Clients:\n"
        for connection in self._facts.clients.connections(brief=True):
            yield f" {_connection(connection)})\n"
        yield "\n"
        yield from self._figures()

    def _figures(self) -> Iterator[str]:
        stats = self._facts.statistics()
        yield (
            "Latency min/avg/max: {min_latency}/{avg_latency}/{max_latency}\n"
            "Received: {packets_received}\nSent: {packets_sent}\n"
            "Connections: {num_alive_client_connections}\nOutstanding: {outstanding_requests}\n"
            "Zxid: 0x{last_processed_zxid:x}\n"
        ).format(**stats)
        yield f"Mode: {self._facts.state}\nNode count: {self._facts.znodes}\n"

    def _mntr(self) -> Iterator[str]:
        for name, value in self._facts.monitor().items():
            yield f"zk_{name}\t{value}\n"

    def _srst(self) -> Iterator[str]:
        self._facts.reset_server()
        yield "Server stats reset.\n"

    def _crst(self) -> Iterator[str]:
        self._facts.clients.reset_connections(self._pause)
        yield "Connection stats reset.\n"

    # -- settings ------------------------------------------------------------------------------------------

    def _conf(self) -> Iterator[str]:
        conf = self._facts.configuration()
        config = self._facts.subject.config
        secure_port = config.tls.secure[1] if config.tls.secure else -1
        size = self._facts.data_size
        yield f"clientPort={conf['client_port']}\nsecureClientPort={secure_port}\n"
        yield f"dataDir={conf['data_dir']}\ndataDirSize={size}\n"
        yield f"dataLogDir={conf['data_log_dir']}\ndataLogSize={size}\n"
        yield f"tickTime={conf['tick_time']}\nmaxClientCnxns={conf['max_client_cnxns']}\n"
        yield f"minSessionTimeout={conf['min_session_timeout']}\n"
        yield f"maxSessionTimeout={conf['max_session_timeout']}\n"
        yield f"clientPortListenBacklog={conf['client_port_listen_backlog']}\n"
        yield f"serverId={conf['server_id']}\nprefix={config.prefix}\n"

    def _envi(self) -> Iterator[str]:
        """Clients read the version here (kazoo's server_version)."""
        yield "Environment:\n"
        for name, value in environment().items():
            yield f"{name}={value}\n"

    def _dirs(self) -> Iterator[str]:
        size = self._facts.data_size
        yield f"datadir_size: {size}\nlogdir_size: {size}\n"
        if self._facts.subject.features:  # the names of Keeper, by which ClickHouse reads them
            yield f"snapshot_dir_size: {size}\nlog_dir_size: {size}\n"

    def _gtmk(self) -> Iterator[str]:
        yield str(self._facts.trace_mask)

    def _stmk(self) -> Iterator[str]:
        """The eight bytes after the word are the new mask; without them ZooKeeper sends an empty answer."""
        if len(self._rest) >= 8:
            self._facts.trace_mask = int.from_bytes(self._rest[:8], "big", signed=True)
            yield str(self._facts.trace_mask)

    def _hash(self) -> Iterator[str]:
        """No line, as from a ZooKeeper that has not reached its first digest."""
        yield ""

    # -- connections, sessions, watches --------------------------------------------------------------------

    def _cons(self) -> Iterator[str]:
        for connection in self._facts.clients.connections(brief=False):
            yield f" {_connection(connection)}{_details(connection)})\n"
        yield "\n"

    def _dump(self) -> Iterator[str]:
        clients = self._facts.clients
        yield "SessionTracker dump:\n"
        yield from _sets("Session", clients.session_expiry(self._pause), hex64, self._due)
        yield f"ephemeral nodes dump:\nSessions with Ephemerals ({clients.owners}):\n"
        for session, paths in clients.ephemerals():
            yield f"{hex64(session)}:\n"
            yield from (f"\t{path}\n" for path in paths)
        yield "Connections dump:\n"
        yield from _sets("Connections", clients.connection_expiry(self._pause), _address, self._due)

    def _due(self, milliseconds: int) -> str:
        """The date that the monotonic clock reaches at a time."""
        clock = self._facts.subject.clock
        return _date(milliseconds / 1000 + clock.time() - clock.monotonic())

    def _wchs(self) -> Iterator[str]:
        connections, paths, watches = self._facts.clients.watch_summary()
        yield f"{connections} connections watching {paths} paths\nTotal watches:{watches}\n"

    def _wchc(self) -> Iterator[str]:
        for session, paths in self._facts.clients.watches_by_session():
            yield f"{hex64(session)}\n"
            yield from (f"\t{path}\n" for path in paths)
        yield "\n"

    def _wchp(self) -> Iterator[str]:
        for path, sessions in self._facts.clients.watches_by_path(self._pause):
            yield f"{path}\n"
            yield from (f"\t{hex64(session)}\n" for session in sessions)
        yield "\n"


def _connection(info: Mapping[str, Any]) -> str:
    """The part of a connection's line that `stat` and `cons` share (ServerCnxn.dumpConnectionInfo)."""
    return (
        "/{remote_socket_address}[{interest_ops}](queued={outstanding_requests},"
        "recved={packets_received},sent={packets_sent}"
    ).format(**info)


def _details(info: Mapping[str, Any]) -> str:
    """What `cons` adds for connections with a session."""
    if not info["session_id"]:
        return ""
    xid = f",lcxid=0x{info['last_cxid']:x}" if info["last_cxid"] >= 0 else ""
    zxid = info["last_zxid"] & 0xFFFFFFFFFFFFFFFF
    return (
        ",sid={sid},lop={last_operation},est={established},to={session_timeout}{xid}"
        ",lzxid=0x{zxid:x},lresp={last_response_time},llat={last_latency},minlat={min_latency}"
        ",avglat={avg_latency},maxlat={max_latency}"
    ).format(**info, sid=hex64(info["session_id"]), xid=xid, zxid=zxid)


def _address(facts: ConnectionFacts) -> str:
    return f"ip: /{socket_address(facts.address, facts.port)} sessionId: {hex64(facts.session_id)}"


def _sets(
    what: str, sets: Mapping[int, list[_Item]], text: Callable[[_Item], str], date_of: Callable[[int], str]
) -> Iterator[str]:
    """ExpiryQueue.dump: what expires when; the keys are milliseconds of the monotonic clock."""
    yield f"{what} Sets ({len(sets)})/({sum(map(len, sets.values()))}):\n"
    for due, elements in sets.items():
        yield f"{len(elements)} expire at {date_of(due)}:\n"
        yield from (f"\t{text(element)}\n" for element in elements)


def _date(seconds: float) -> str:
    """java.util.Date.toString, whatever the locale."""
    day = datetime.fromtimestamp(seconds, UTC)
    name = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[day.weekday()]
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return f"{name} {months[day.month - 1]} {day:%d %H:%M:%S UTC %Y}"
