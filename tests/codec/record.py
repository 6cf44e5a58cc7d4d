"""Records sessions of real clients with a real ZooKeeper into tests/codec/fixtures.

Run from the repository's root: `python -m tests.codec.record`. Needs Java and the ZooKeeper jars, as the
tests with a real server do. Recordings differ from run to run in times, ids and passwords, and in nothing
that the tests look at; record again when ZooKeeper's version or the scenarios change.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

from typing_extensions import override

from codec.constants import OpCode
from codec.framing import Framer
from codec.jute import INT
from lab.oracle import wire
from lab.oracle.requests import (
    AddWatch,
    Check,
    CheckWatches,
    CloseSession,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    DeleteContainer,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    Ping,
    RemoveWatches,
    Request,
    SetData,
    SetWatches,
    Sync,
    encode,
)
from lab.oracle.wire import Connection, Event
from lab.servers import ZooKeeperServer, wait_until, zookeeper_classpath
from lab.servers.link import Link
from lab.servers.zookeeper import java_program

FIXTURES = Path(__file__).parent / "fixtures"


class Recorder(Link):
    """A relay that notes each frame with its direction before it passes it on, one list per connection."""

    def __init__(self, port: int) -> None:
        self.connections: list[list[str]] = []
        super().__init__(port)

    @override
    def listeners(self) -> tuple[Callable[[bytes], object], Callable[[bytes], object]]:
        frames: list[str] = []
        self.connections.append(frames)

        def noted(direction: str) -> Callable[[bytes], object]:
            framer = Framer(1 << 30)
            return lambda data: frames.extend(f"{direction} {frame.hex()}" for frame in framer.feed(data))

        return noted(">"), noted("<")


_COMMANDS = """
create /java value
create -c /java/container
create -t 100000 /java/ttl value
create -s -t 100000 /java/ttl- value
create -e /java/ephemeral
create -s -e /java/both-
create /java/acl value world:anyone:cdrwa,digest:me:aGFzaA==:r
get -s /java
set -s -v 0 /java second
set -v 7 /java third
ls -s /java
ls -R /java
stat /java
getAcl -s /java/acl
setAcl -s /java/acl ip:127.0.0.1:cdrwa
addauth digest me:pw
whoami
getEphemerals
getEphemerals /java
getAllChildrenNumber /java
sync /java
listquota /java
config
reconfig -remove 1
addWatch -m PERSISTENT /java/ttl
addWatch /java/container
get -w /java
ls -w /java
stat -w /java/acl
removewatches /java/acl
delete -v 3 /java/acl
delete /java/none
"""


def java_client(recorder: Recorder) -> None:
    """zkCli: what only the Java client sends, and its setWatches2 after a cut connection."""
    command = [java_program(), "-Dorg.apache.logging.log4j.level=OFF", "-cp", zookeeper_classpath()]
    command += ["org.apache.zookeeper.ZooKeeperMain", "-server", f"127.0.0.1:{recorder.port}"]
    silent = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=silent, stderr=silent, text=True, bufsize=1
    ) as process:
        stdin = process.stdin
        assert stdin is not None

        def requests() -> int:
            return sum(line.startswith(">") for frames in recorder.connections for line in frames)

        def run(command: str) -> None:
            # Each command sends at least one request; zkCli's own pings may come between, which does no harm.
            before = requests()
            stdin.write(command + "\n")
            wait_until(lambda: requests() > before, what=command)

        wait_until(lambda: requests() > 0, what="zkCli's connection")
        for line in _COMMANDS.strip().splitlines():
            run(line)
        before = len(recorder.connections)
        recorder.cut()
        # The request's type follows its xid, which is an ordinary one: ClientCnxnSocketNIO overwrites the -8
        # that ClientCnxn chose.
        kind = INT.pack(OpCode.SET_WATCHES2).hex()
        wait_until(
            lambda: any(line[10:18] == kind for frames in recorder.connections[before:] for line in frames),
            what="setWatches2 on a new connection",
        )
        run("set /java/ttl again")
        stdin.write("quit\n")
        stdin.close()
        process.wait(timeout=30)


def rare_requests(recorder: Recorder) -> None:
    """What neither client sends: our own requests after an old client's connect, and the server's answers."""
    requests: list[Request] = [
        CreateContainer("/rare", None),
        GetChildren("/rare", True),
        CheckWatches("/rare", 1),
        CheckWatches("/rare", 2),
        RemoveWatches("/rare", 1),
        MultiRead((GetData("/rare"), GetChildren("/"), GetData("/none"))),
        Multi(
            (
                Create("/rare/one", None, 2),
                Create("/rare/two", b"2", with_stat=True),
                CreateTtl("/rare/ttl", b"3", 99999),
                SetData("/rare/two", bytes(range(256)), 0),
                Check("/rare/two", 1),
                Delete("/rare/two"),
            )
        ),
        Multi((Create("/rare/never"), Check("/rare", 9), Delete("/rare/never"))),
        Multi(()),
        SetWatches(0, ("/rare",), ("/rare",), ("/x",)),
        AddWatch("/rare", 1),
        Create("/rare/wört", "€".encode(), 1),
        Create("/none/x", None),
        Exists("/rare/wört"),
        Exists("/none"),
        Create("/rare/ä", None, with_stat=True),
        SetData("/rare/ä"),
        Delete("/rare/ä"),
        RemoveWatches("/rare", 3),
        Sync(None),
        Ping(),
        DeleteContainer("/rare"),
        CloseSession(),
    ]
    connection = Connection(recorder.port)
    connection.send(wire.frame(wire.pack_connect(timeout_ms=9000)[:-1]))
    connection.receive_session()
    for xid, request in enumerate(requests, 1):
        connection.send(wire.frame(encode(request, xid)))
        while isinstance(connection.receive(), Event):
            pass
    connection.close()


SCENARIOS = (java_client, rare_requests)


def main() -> None:
    """Record all scenarios, each with a server of its own."""
    for scenario in SCENARIOS:
        properties = {"zookeeper.extendedTypesEnabled": "true"}
        with ZooKeeperServer(max_client_connections=0, system_properties=properties) as server:
            recorder = Recorder(server.port)
            try:
                scenario(recorder)
            finally:
                recorder.close()
            version = server.version()
        for old in FIXTURES.glob(f"{scenario.__name__}-*.txt"):
            old.unlink()
        for number, frames in enumerate(recorder.connections, 1):
            path = FIXTURES / f"{scenario.__name__}-{number}.txt"
            path.write_text("".join(f"{line}\n" for line in [f"# ZooKeeper {version}", *frames]))
            print(f"{path.name}: {len(frames)} frames")


if __name__ == "__main__":
    main()
