"""Records sessions of real clients with a real ZooKeeper into tests/codec/fixtures.

Run from the repository's root: `python -m tests.codec.record`. Needs Java and the ZooKeeper jars, as the
tests with a real server do. Recordings differ from run to run in times, ids and passwords, and in nothing
that the tests look at; record again when ZooKeeper's version or the scenarios change.
"""

import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

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
        (OpCode.CREATE, {**new, "path": "/rare/one", "flags": 2}),
        (OpCode.CREATE2, {**new, "path": "/rare/two", "data": b"2", "flags": 0}),
        (OpCode.CREATE_TTL, {**new, "path": "/rare/ttl", "data": b"3", "flags": 5, "ttl": 99999}),
        (OpCode.SET_DATA, {"path": "/rare/two", "data": bytes(range(256)), "version": 0}),
        (OpCode.CHECK, {"path": "/rare/two", "version": 1}),
        (OpCode.DELETE, {"path": "/rare/two", "version": -1}),
    )
    failing = _parts(
        (OpCode.CREATE, {**new, "path": "/rare/never", "data": b"", "flags": 0}),
        (OpCode.CHECK, {"path": "/rare", "version": 9}),
        (OpCode.DELETE, {"path": "/rare/never", "version": -1}),
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
        (OpCode.MULTI, failing),
        (OpCode.MULTI, _parts()),
        (OpCode.SET_WATCHES, {"relativeZxid": 0, **watches}),
        (OpCode.ADD_WATCH, {"path": "/rare", "mode": 1}),
        (OpCode.CREATE, {**new, "path": "/rare/wört", "data": "€".encode(), "flags": 1}),
        (OpCode.CREATE, {**new, "path": "/none/x", "flags": 0}),
        (OpCode.EXISTS, {"path": "/rare/wört", "watch": False}),
        (OpCode.EXISTS, {"path": "/none", "watch": False}),
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
