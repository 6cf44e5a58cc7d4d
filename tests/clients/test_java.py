"""The real Java client: a scripted zkCli session reads, line by line, as on real ZooKeeper."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from lab.client.blocking import EPHEMERAL, SEQUENTIAL, Client
from lab.servers import ZooKeeperServer, wait_until, zookeeper_classpath
from lab.servers.process import ServerProcess
from lab.servers.zookeeper import java_program
from tests.clients.spark import SHORT_LIVED
from tests.conftest import TICK_TIME_MS


class Step(NamedTuple):
    """One command; `events` notifications belong to it and are waited for: zkCli prints them late."""

    command: str
    events: int = 0


# tl+z... is base64(sha1("user:test")), as ZooKeeper's digest scheme has it.
SCRIPT = [
    Step("ls /"),
    Step("stat /"),
    Step("ls -R /"),
    Step("get /zookeeper/config"),
    # Kinds of nodes
    Step("create /a first"),
    Step("create /a again"),
    Step("create /a/b"),
    Step("create /a/b/c data"),
    Step("create -s /a/seq- one"),
    Step("create -s /a/seq- two"),
    Step("create -e /a/ephemeral mine"),
    Step("create -e -s /a/both- mine"),
    Step("create /a/ephemeral/child no"),
    Step("create /a/gr\u00fc\u00dfe \u4f60\u597d"),
    # Reading
    Step("ls /a"),
    Step("ls -s /a"),
    Step("ls -R /a"),
    Step("get /a"),
    Step("get -s /a"),
    Step("get -s /a/gr\u00fc\u00dfe"),
    Step("stat /a"),
    Step("stat /nothing"),
    # Writing with versions
    Step("set /a second"),
    Step("set -v 1 /a third"),
    Step("set -s -v 1 /a late"),
    Step("get -s /a"),
    Step("delete /a/b"),
    Step("delete -v 0 /a/b/c"),
    Step("delete /a/b"),
    Step("delete /a/b"),
    Step("stat /a"),
    Step("delete /"),
    # Watches
    Step("get -w /a"),
    Step("set /a watched", events=1),
    Step("set /a unwatched"),
    Step("ls -w /a"),
    Step("create /a/new", events=1),
    Step("stat -w /a/new"),
    Step("ls -w /a"),
    Step("delete /a/new", events=2),
    Step("stat -w /a/later"),
    Step("create /a/later now", events=1),
    Step("get -w /a/later"),
    Step("ls -w /a/later"),
    Step("delete /a/later", events=1),
    # Watches that last, and their removal, of which the client itself makes events
    Step("addWatch -m PERSISTENT /a"),
    Step("set /a once", events=1),
    Step("set /a twice", events=1),
    Step("create /a/new", events=1),
    Step("addWatch -m PERSISTENT_RECURSIVE /a"),
    Step("set /a/new told", events=1),
    Step("create /a/new/deeper", events=1),
    Step("get -w /a/new"),
    Step("removewatches /a/new -d", events=1),
    Step("removewatches /a/new -d"),
    Step("deleteall /a/new", events=3),
    Step("removewatches /a", events=1),
    Step("set /a unwatched"),
    # The session and the server
    Step("getEphemerals /a/e"),
    Step("getAllChildrenNumber /a"),
    Step("whoami"),
    Step("config"),
    Step("reconfig -remove 2"),
    # Permissions
    Step("getAcl /a"),
    Step("getAcl -s /a"),
    Step("create /locked secret digest:user:tl+z3z0vO6PfPfEENfLF96E6pM0=:cdrwa"),
    Step("get /locked"),
    Step("set /locked x"),
    Step("getAcl /locked"),
    Step("addauth digest user:test"),
    Step("get /locked"),
    Step("set -s /locked x"),
    Step("getAcl -s /locked"),
    Step("delete /locked"),
    Step("create /mine data auth::cdrwa"),
    Step("getAcl /mine"),
    Step("setAcl -s -v 0 /mine world:anyone:ra"),
    Step("getAcl /mine"),
    Step("create /tree root"),
    Step("create /tree/x"),
    Step("create /tree/x/y"),
    Step("setAcl -R /tree world:anyone:cdrwa,ip:127.0.0.1:r"),
    Step("getAcl /tree/x/y"),
    # Nodes that the server deletes
    Step("create -c /container data"),
    Step("stat /container"),
    Step("create -t 100000 /container/ttl data"),
    Step("create -t 100000 -s /container/ttl data"),
    Step("get -s /container/ttl"),
    # Quotas
    Step("create /limited 12345"),
    Step("create /limited/x 12"),
    Step("listquota /limited"),
    Step("setquota -n 4 /limited"),
    Step("listquota /limited"),
    Step("create /limited/y"),
    Step("setquota -b 5 /limited"),
    Step("setquota -N 9 /limited"),
    Step("setquota -B 99 /limited"),
    Step("listquota /limited"),
    Step("get -s /zookeeper/quota/limited/zookeeper_stats"),
    Step("get -s /zookeeper/quota/limited/zookeeper_limits"),
    Step("setquota -n 5 /limited/x"),
    Step("ls -R /zookeeper/quota"),
    Step("delquota -n /limited"),
    Step("listquota /limited"),
    Step("delquota /limited"),
    Step("listquota /limited"),
    Step("delquota /limited"),
    Step("ls -R /zookeeper"),
    Step("deleteall /limited"),
    # The rest
    Step("sync /a"),
    Step("deleteall /tree"),
    Step("ls -R /"),
    Step("stat /"),
    Step("create -e /goes with-the-session"),
    Step("close", events=1),
    Step("get /a"),
    Step("connect {address}", events=1),
    Step("ls -R /"),
    Step("get -s /a"),
    Step("stat /"),
]

# What zkCli does and prints without a server, connected or not: the end of what came before.
_END_COMMAND, _END = "printwatches", "printwatches is on"
_EVENT = "WatchedEvent "


class _Session:
    """One zkCli that is fed command after command."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        assert process.stdin
        assert process.stdout
        self._input, self._output = process.stdin, process.stdout
        self._address = address
        self._events: list[str] = []

    def play(self, steps: list[Step]) -> list[str]:
        """The transcript: each command, its output, then its events."""
        # The first events tell that the session is connected.
        transcript = self._ask(Step("", events=1))
        for step in steps:
            transcript += [f"> {step.command}", *self._ask(step)]
        return transcript

    def ask_connected(self, command: str) -> None:
        """Send a command until it reaches a server."""
        wait_until(lambda: not any("ConnectionLoss" in line for line in self._send(command)), command)

    def watched(self, number: int) -> list[str]:
        """Wait for this number of events of watches, and return what they tell, sorted."""

        def events() -> list[str]:
            self._send("")
            return [event for event in self._events if "type:None" not in event]

        wait_until(lambda: len(events()) >= number, f"{number} events")
        told = sorted(re.sub(r".* type:(\w+) path:(\S+).*", r"\1 \2", event) for event in events())
        self._events.clear()
        return told

    def _ask(self, step: Step) -> list[str]:
        output = self._send(step.command.format(address=self._address))

        def all_events_came() -> bool:
            if len(self._events) < step.events:
                self._send("")  # only reads what has come: once disconnected, it complains at each command
            return len(self._events) >= step.events

        wait_until(all_events_came, f"{step.events} events of {step.command!r}")
        events, self._events = self._events, []
        return output + events

    def _send(self, command: str) -> list[str]:
        self._input.write(f"{command}\n{_END_COMMAND}\n")
        self._input.flush()
        output: list[str] = []
        while not (line := self._output.readline()).startswith(_END):
            assert line, f"zkCli ended at {command!r}: {output}"
            if line.startswith(_EVENT):
                self._events.append(line.rstrip())
            # Empty lines and the heading of an event come between others, as the threads of zkCli will.
            elif line.strip() not in {"", "WATCHER::"}:
                output.append(line.rstrip("\n"))
        return output


@contextmanager
def _zkcli(*servers: ServerProcess) -> Iterator[_Session]:
    """A zkCli that knows these servers; it is dead afterwards."""
    addresses = ",".join(server.address for server in servers)
    # Without JLine, zkCli reads plain lines and prints no prompt.
    jars = [jar for jar in zookeeper_classpath().split(os.pathsep) if "jline" not in jar]
    command = [
        *(java_program(), "-Xmx64m", *SHORT_LIVED.split(), "-Dfile.encoding=UTF-8"),
        *("-Dorg.apache.logging.log4j.level=OFF", "-cp", os.pathsep.join(jars)),
        *("org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", addresses),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    ) as process:
        try:
            yield _Session(process, addresses)
        finally:
            process.kill()


_ZXID = re.compile(r"(?<=Zxid = 0x)[0-9a-f]+|(?<=zxid: )\d+")
_MOVING = [
    (re.compile(r"(?<=[cm]time = )\w.*"), "TIME"),
    (re.compile(r"(?<=ephemeralOwner = )0x[0-9a-f]{2,}"), "SESSION"),
    (re.compile(r"Session 0x[0-9a-f]+"), "Session SESSION"),
]


def _comparable(transcript: list[str], server: ServerProcess) -> list[str]:
    """The transcript without what differs between two runs; zxids become their rank among those shown."""
    text = "\n".join(transcript).replace(server.address, "ADDRESS")
    for pattern, name in _MOVING:
        text = pattern.sub(name, text)

    def number(found: re.Match[str]) -> int:
        return int(found[0], 10 if found.string[found.start() - 2] == ":" else 16)

    ranks = sorted({number(found) for found in _ZXID.finditer(text)} | {0})
    return _ZXID.sub(lambda found: f"#{ranks.index(number(found))}", text).splitlines()


def test_a_zkcli_session_reads_as_on_real_zookeeper(pair: tuple[ServerProcess, ServerProcess]) -> None:
    transcripts = []
    extended = {"zookeeper.extendedTypesEnabled": "true"}  # zketcd's default
    with ExitStack() as stack:
        oracle = stack.enter_context(ZooKeeperServer(tick_time=TICK_TIME_MS, system_properties=extended))
        for server in (oracle, pair[0]):
            session = stack.enter_context(_zkcli(server))
            transcripts.append(_comparable(session.play(SCRIPT), server))
    assert transcripts[1] == transcripts[0]


def test_watches_move_with_their_session_to_another_server(pair: tuple[ServerProcess, ServerProcess]) -> None:
    with _zkcli(*pair) as session:
        session.ask_connected("create /watched data")
        session.ask_connected("create /lasting data")
        session.ask_connected("addWatch -m PERSISTENT_RECURSIVE /lasting")
        # zkCli is connected to one of the two, so it has to move once.
        for dying, other in (pair, reversed(pair)):
            session.ask_connected("get -w /watched")
            session.ask_connected("ls -w /watched")
            session.ask_connected("stat -w /absent")
            dying.kill()
            if other is dying:
                dying.start()
            # Before, while or after zkCli sets its watches at the other server: each fires, once.
            with Client(other.port) as writer:
                writer.write("/watched", b"changed", -1)
                writer.create("/watched/child-", b"", SEQUENTIAL)
                writer.create("/absent", b"", EPHEMERAL)
                assert session.watched(3) == [
                    "NodeChildrenChanged /watched",
                    "NodeCreated /absent",
                    "NodeDataChanged /watched",
                ]
                session.ask_connected("stat /watched")
                writer.create("/lasting/child-", b"", SEQUENTIAL)
                (event,) = session.watched(1)
                assert event.startswith("NodeCreated /lasting/child-")
                writer.close()
            if other is not dying:
                dying.start()
