"""Records sessions of real clients with a real ZooKeeper into tests/codec/fixtures.

Run from the repository's root: `python -m tests.codec.record`. Needs Java and the ZooKeeper jars, as the
tests with a real server do. Recordings differ from run to run in times, ids and passwords, and in nothing
that the tests look at; record again when ZooKeeper's version or the scenarios change.
"""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, RolledBackError
from kazoo.security import make_acl, make_digest_acl

from codec import records
from codec.constants import OpCode, Xid
from codec.jute import INT, pack_buffer
from lab.servers import ZooKeeperServer, wait_until, zookeeper_classpath
from lab.servers.zookeeper import java_program

FIXTURES = Path(__file__).parent / "fixtures"

OPEN = [{"perms": 31, "id": {"scheme": "world", "id": "anyone"}}]


class Recorder:
    """A TCP proxy that notes each frame with its direction before it hands it on, one list per connection."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections: list[list[str]] = []
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening and drop what is open."""
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Cut all connections, as a network would."""
        for one in self._sockets:
            _shut(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                frames: list[str] = []
                self.connections.append(frames)
                self._sockets += [client, server]
                threading.Thread(target=self._pump, args=(client, server, ">", frames), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, "<", frames), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, direction: str, frames: list[str]) -> None:
        with source, target:
            with suppress(OSError, EOFError):
                while True:
                    length = _receive(source, 4)
                    payload = _receive(source, INT.unpack(length)[0])
                    frames.append(f"{direction} {payload.hex()}")
                    target.sendall(length + payload)
            # The other direction's thread still reads from `target`: closing alone would not wake it.
            _shut(target)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _receive(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = source.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


@contextmanager
def _kazoo(port: int) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{port}", timeout=10)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _refused(call: Callable[[], object]) -> None:
    with suppress(KazooException):
        call()
        raise AssertionError("this request should have been refused")


def kazoo_operations(recorder: Recorder) -> None:
    """Every operation kazoo offers, with success and with the errors it can meet."""
    with _kazoo(recorder.port) as zk:
        zk.create("/kazoo", b"root")
        zk.create("/kazoo/plain", b"value")
        zk.create("/kazoo/empty")
        zk.create("/kazoo/ünï€", "wört".encode())
        zk.create("/kazoo/ephemeral", b"e", ephemeral=True)
        zk.create("/kazoo/seq-", b"s", sequence=True)
        zk.create("/kazoo/both-", b"b", ephemeral=True, sequence=True)
        zk.create("/kazoo/stat", b"with stat", include_data=True)
        zk.create("/kazoo/deep/er/still", b"", makepath=True)
        zk.create(
            "/kazoo/secret", b"x", acl=[make_digest_acl("me", "pw", all=True), make_acl("ip", "10.0.0.0/8")]
        )
        for _ in range(3):
            zk.create("/kazoo/seq-", b"", sequence=True)
        for call in (
            lambda: zk.create("/kazoo/plain"),
            lambda: zk.create("/no/parent"),
            lambda: zk.create("/kazoo/ephemeral/child"),
            lambda: zk.create("/kazoo/bad-acl", acl=[make_acl("nonsense", "x", read=True)]),
            lambda: zk.delete("/kazoo"),
            lambda: zk.delete("/kazoo/none"),
            lambda: zk.delete("/kazoo/plain", version=7),
            lambda: zk.set("/kazoo/plain", b"x", version=7),
            lambda: zk.get("/kazoo/none"),
            lambda: zk.get("/kazoo/secret"),
            lambda: zk.get_children("/kazoo/none"),
            lambda: zk.get_acls("/kazoo/none"),
        ):
            _refused(call)
        assert zk.exists("/kazoo/none") is None
        zk.exists("/kazoo/plain")
        zk.get("/kazoo/plain")
        zk.get("/kazoo/ünï€")
        zk.get("/zookeeper/config")
        zk.set("/kazoo/plain", b"second", version=0)
        zk.set("/kazoo/plain", bytes(range(256)) * 8)
        zk.get("/kazoo/plain")
        zk.get_children("/kazoo")
        zk.get_children("/kazoo/plain")
        zk.get_children("/kazoo", include_data=True)
        zk.get_acls("/kazoo")
        zk.add_auth("digest", "me:pw")
        zk.get("/kazoo/secret")
        zk.get_acls("/kazoo/secret")
        zk.set_acls("/kazoo/plain", [make_acl("auth", "", all=True), make_acl("world", "anyone", read=True)])
        zk.get_acls("/kazoo/plain")
        zk.sync("/kazoo")
        zk.delete("/kazoo/empty")
        zk.delete("/kazoo/deep", recursive=True)


def kazoo_transactions(recorder: Recorder) -> None:
    """Multis that succeed, fail at the first, in the middle, and an empty one."""
    with _kazoo(recorder.port) as zk:
        zk.create("/multi", b"")
        good, bad, first = (zk.transaction() for _ in range(3))
        good.create("/multi/a", b"1")
        good.create("/multi/q-", b"2", sequence=True)
        good.set_data("/multi/a", b"3", version=0)
        good.check("/multi/a", version=1)
        good.create("/multi/gone", b"", ephemeral=True)
        good.delete("/multi/gone")
        assert not [result for result in good.commit() if isinstance(result, Exception)]
        bad.create("/multi/b", b"1")
        bad.check("/multi/a", version=9)
        bad.set_data("/multi/a", b"never")
        assert any(isinstance(result, RolledBackError) for result in bad.commit())
        first.create("/multi/a", b"")
        first.delete("/multi/a")
        assert isinstance(first.commit()[0], NodeExistsError)
        assert zk.transaction().commit() == []


def kazoo_watches(recorder: Recorder) -> None:
    """Every kind of event, for one-shot watches."""
    events: list[object] = []
    with _kazoo(recorder.port) as zk, _kazoo(recorder.port) as other:
        zk.create("/watch", b"")
        zk.exists("/watch/x", watch=events.append)
        other.create("/watch/x", b"1")
        zk.get("/watch/x", watch=events.append)
        zk.get_children("/watch", watch=events.append)
        other.set("/watch/x", b"2")
        other.create("/watch/y", b"")
        zk.get("/watch/x", watch=events.append)
        zk.get_children("/watch/x", watch=events.append)
        other.delete("/watch/x")
        wait_until(lambda: len(events) == 5, what="the watch events")


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
        recorder.drop()
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
    connect = {"protocolVersion": 0, "lastZxidSeen": 0, "timeOut": 9000, "sessionId": 0, "passwd": bytes(16)}
    new = {"data": None, "acl": OPEN}
    reads = _parts(
        (OpCode.GET_DATA, {"path": "/rare", "watch": False}),
        (OpCode.GET_CHILDREN, {"path": "/", "watch": False}),
        (OpCode.GET_DATA, {"path": "/none", "watch": False}),
    )
    writes = _parts(
        (OpCode.CREATE2, {**new, "path": "/rare/two", "data": b"2", "flags": 0}),
        (OpCode.CREATE_TTL, {**new, "path": "/rare/ttl", "data": b"3", "flags": 5, "ttl": 99999}),
    )
    watches = {"dataWatches": ["/rare"], "existWatches": ["/rare"], "childWatches": ["/x"]}
    operations: list[tuple[OpCode, dict[str, object]]] = [
        (OpCode.CREATE_CONTAINER, {**new, "path": "/rare", "flags": 4}),
        (OpCode.GET_CHILDREN, {"path": "/rare", "watch": True}),
        (OpCode.CHECK_WATCHES, {"path": "/rare", "type": 1}),
        (OpCode.CHECK_WATCHES, {"path": "/rare", "type": 2}),
        (OpCode.REMOVE_WATCHES, {"path": "/rare", "type": 1}),
        (OpCode.MULTI_READ, reads),
        (OpCode.MULTI, writes),
        (OpCode.SET_WATCHES, {"relativeZxid": 0, **watches}),
        (OpCode.ADD_WATCH, {"path": "/rare", "mode": 1}),
        (OpCode.CREATE2, {**new, "path": "/rare/ä", "flags": 0}),
        (OpCode.SET_DATA, {"path": "/rare/ä", "data": b"", "version": -1}),
        (OpCode.DELETE, {"path": "/rare/ä", "version": -1}),
        (OpCode.REMOVE_WATCHES, {"path": "/rare", "type": 3}),
        (OpCode.SYNC, {"path": None}),
        (OpCode.PING, {}),
        (OpCode.DELETE_CONTAINER, {"path": "/rare"}),
        (OpCode.CLOSE_SESSION, {}),
    ]
    with socket.create_connection(("127.0.0.1", recorder.port), timeout=10) as client:
        payloads = [records.encode(records.ConnectRequest, {**connect, "readOnly": None})]
        for number, (kind, fields) in enumerate(operations, 1):
            xid = Xid.PING if kind == OpCode.PING else number
            header = records.encode(records.RequestHeader, {"xid": xid, "type": kind})
            payloads.append(header + records.encode(records.REQUESTS[kind], fields))
        client.sendall(b"".join(map(pack_buffer, payloads)))
        with suppress(EOFError, ConnectionResetError):
            while True:
                _receive(client, INT.unpack(_receive(client, 4))[0])


def _parts(*parts: tuple[OpCode, dict[str, object]]) -> dict[str, object]:
    """The fields of a multi."""
    end = {"header": {"type": -1, "done": True, "err": -1}, "body": None}
    headed = [{"header": {"type": kind, "done": False, "err": -1}, "body": body} for kind, body in parts]
    return {"operations": [*headed, end]}


SCENARIOS = (kazoo_operations, kazoo_transactions, kazoo_watches, java_client, rare_requests)


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
