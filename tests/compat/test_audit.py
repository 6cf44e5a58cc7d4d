"""The audit log compared with real ZooKeeper's: the same requests must give the same lines."""

import getpass
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from lab.oracle import wire
from lab.oracle.wire import pack_acls, pack_buffer, pack_int, pack_long, pack_string
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.waiting import wait_until

pytestmark = pytest.mark.real

OPEN = [(31, "world", "anyone")]
# log4j2's form of a file that sends the audit logger to stdout, each line behind a word to find it by.
_LOG4J = """status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=AUDIT %m%n
logger.audit.name=org.apache.zookeeper.audit
logger.audit.level=info
logger.audit.additivity=false
logger.audit.appenderRef.out.ref=out
rootLogger.level=error
"""
_ENDED = "operation=ephemeralZNodeDeletionOnSessionCloseOrExpire"


def create(path: str | None, mode: int = 0, acl: wire.Acls | None = OPEN) -> bytes:
    return pack_string(path) + pack_buffer(b"x") + pack_acls(acl) + pack_int(mode)


def versioned(path: str | None, version: int = -1) -> bytes:
    return pack_string(path) + pack_int(version)


def set_data(path: str, version: int = -1) -> bytes:
    return pack_string(path) + pack_buffer(b"y") + pack_int(version)


def set_acl(path: str, acl: wire.Acls, version: int = -1) -> bytes:
    return pack_string(path) + pack_acls(acl) + pack_int(version)


def multi(*parts: tuple[int, bytes]) -> bytes:
    return b"".join(struct.pack(">ibi", opcode, 0, -1) + body for opcode, body in parts) + struct.pack(
        ">ibi", -1, 1, -1
    )


def auth(user: str) -> bytes:
    return pack_int(0) + pack_string("digest") + pack_buffer(f"{user}:word".encode())


TTL = pack_long(100_000)
# One session's requests: opcode and body.
REQUESTS: list[tuple[int, bytes]] = [
    (wire.CREATE, create("/a")),
    (wire.CREATE, create("/a")),
    (wire.CREATE, create("/a/e", 1)),
    (wire.CREATE, create("/a/s-", 2)),
    (wire.CREATE2, create("/a/es-", 3)),
    (wire.CREATE2, create("/a/no/parent")),
    (wire.CREATE, create("bad")),
    (wire.CREATE, create("/nobody", 0, [])),
    (wire.CREATE_CONTAINER, create("/container", 4)),
    (wire.CREATE_CONTAINER, create("/container", 4)),
    (wire.CREATE_TTL, create("/ttl", 5) + TTL),
    (wire.CREATE_TTL, create("/ttl", 5) + TTL),
    (wire.CREATE_TTL, create("/ttl-", 6) + TTL),
    (wire.DELETE_CONTAINER, pack_string("/container")),
    (wire.SET_DATA, set_data("/a")),
    (wire.SET_DATA, set_data("/a", 7)),
    (wire.SET_DATA, set_data("/none")),
    (wire.GET_DATA, pack_string("/a") + b"\0"),
    (wire.EXISTS, pack_string("/none") + b"\0"),
    (wire.SYNC, pack_string("/a")),
    (wire.SET_ACL, set_acl("/a", [(31, "world", "anyone"), (1, "ip", "127.0.0.1")])),
    (wire.SET_ACL, set_acl("/a", [])),
    (wire.SET_ACL, set_acl("/none", OPEN)),
    (wire.SET_ACL, set_acl("/a", [(0, "world", "anyone")], 9)),
    (wire.CREATE, create("/locked", 0, [(1, "digest", "u:4Fn5NDKqMgMwjRQwIYqeGFsYCg8=")])),
    (wire.SET_DATA, set_data("/locked")),
    (wire.DELETE, versioned("/a/s-0000000001")),
    (wire.DELETE, versioned("/a")),
    (wire.DELETE, versioned("/none")),
    (
        wire.MULTI,
        multi(
            (wire.CREATE, create("/m")),
            (wire.CREATE, create("/m/e", 1)),
            (wire.CREATE2, create("/m/s-", 2)),
            (wire.CREATE_CONTAINER, create("/m/c", 4)),
            (wire.CREATE_TTL, create("/m/t", 5) + TTL),
            (wire.CHECK, versioned("/m")),
            (wire.SET_DATA, set_data("/m")),
            (wire.DELETE, versioned("/m/e")),
        ),
    ),
    (wire.MULTI, multi((wire.CREATE, create("/n")), (wire.DELETE, versioned("/none")))),
    (wire.MULTI, multi()),
    (wire.AUTH, auth("joe")),
    (wire.CREATE, create("/joe", 0, [(31, "auth", "")])),
    (wire.SET_ACL, set_acl("/joe", [(3, "auth", "")])),
    (wire.AUTH, auth("amy")),
    (wire.DELETE, versioned("/joe")),
    (wire.CREATE, create("/e", 1)),
    (wire.CLOSE_SESSION, b""),
]


def _run(port: int, requests: Sequence[tuple[int, bytes]]) -> str:
    """Send them one after the other; the session's id as logs have it."""
    connection = wire.Connection(port, patience=60)
    try:
        session = connection.connect()
        assert isinstance(session, wire.Session)
        for number, (opcode, body) in enumerate(requests, 1):
            xid = wire.AUTH_XID if opcode == wire.AUTH else number
            connection.send(wire.frame(struct.pack(">ii", xid, opcode) + body))
            assert isinstance(connection.receive(), wire.Reply), (number, opcode)
        return f"0x{session.id & (1 << 64) - 1:x}"
    finally:
        connection.close()


def _lines(log: str, session: str, mark: str) -> list[str]:
    """A session's lines. The order of users, and of ephemerals at its end, is nobody's promise."""
    found = []
    for line in log.splitlines():
        _, marked, text = line.partition(mark)
        if not marked or f"session={session}\t" not in text:
            continue
        fields = text.split("\t")
        found.append(
            "\t".join(
                "user=" + ",".join(sorted(field[5:].split(","))) if field.startswith("user=") else field
                for field in fields[1:]
            )
        )
    ended = sorted(line for line in found if _ENDED in line)
    return [line for line in found if _ENDED not in line] + ended


def _settled(read: Callable[[], str], session: str, mark: str) -> list[str]:
    """The lines, once those of the session's end are there: the reply may come before them."""

    def is_whole() -> bool:
        return any("znode=/e\t" in line and _ENDED in line for line in _lines(read(), session, mark))

    wait_until(is_whole, "the lines of the session's end", timeout=60)
    return _lines(read(), session, mark)


@pytest.fixture(scope="module")
def of_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    configuration = tmp_path_factory.mktemp("audit") / "log4j2.properties"
    configuration.write_text(_LOG4J)
    properties = {
        "zookeeper.audit.enable": "true",
        "zookeeper.extendedTypesEnabled": "true",
        "log4j2.configurationFile": str(configuration),
    }
    with ZooKeeperServer(system_properties=properties) as server:
        session = _run(server.port, REQUESTS)
        yield _settled(server.log_text, session, "AUDIT ")


@pytest.mark.parametrize("form", ["file", "stderr"])
def test_the_lines_are_zookeepers(
    of_zookeeper: list[str], etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "audit.log"
    target = str(path) if form == "file" else "-"
    # The level of messages has no say.
    with ZketcdServer(
        etcd_server.endpoint, prefix=etcd_prefix, audit_log=target, log_level="ERROR"
    ) as server:
        read = path.read_text if form == "file" else server.log_text
        lines = _settled(read, _run(server.port, REQUESTS), "zketcd.audit: ")
        assert lines == of_zookeeper
        assert len(lines) > 40
        server.stop()
        of_server = [
            line.partition("audit: ")[2] for line in read().splitlines() if "operation=server" in line
        ]
    user = getpass.getuser()
    assert of_server == [
        f"user={user}\toperation={what}\tresult=success" for what in ("serverStart", "serverStop")
    ]
