"""The audit log compared with real ZooKeeper's: the same requests must give the same lines."""

import getpass
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codec.longs import hex64
from lab.oracle.client import Client
from lab.oracle.requests import (
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    OPEN,
    SEQUENTIAL,
    SEQUENTIAL_WITH_TTL,
    AddAuth,
    Check,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Exists,
    GetData,
    Multi,
    Request,
    SetAcl,
    SetData,
    Sync,
)
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.waiting import wait_until

pytestmark = pytest.mark.real

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
_EPHEMERALS = 3  # of REQUESTS, which go with the session


_MULTI = Multi(
    (
        Create("/m"),
        Create("/m/e", flags=EPHEMERAL),
        Create("/m/s-", flags=SEQUENTIAL, with_stat=True),
        CreateContainer("/m/c"),
        CreateTtl("/m/t"),
        Check("/m"),
        SetData("/m"),
        Delete("/m/e"),
    )
)
_LOCKED = ((1, "digest", "u:4Fn5NDKqMgMwjRQwIYqeGFsYCg8="),)
# One session's requests.
REQUESTS: list[Request] = [
    *(Create("/a"), Create("/a"), Create("/a/e", flags=EPHEMERAL), Create("/a/s-", flags=SEQUENTIAL)),
    Create("/a/es-", flags=EPHEMERAL_SEQUENTIAL, with_stat=True),
    *(Create("/a/no/parent", with_stat=True), Create("bad"), Create("/nobody", acls=())),
    *(CreateContainer("/container"), CreateContainer("/container")),
    *(CreateTtl("/ttl"), CreateTtl("/ttl"), CreateTtl("/ttl-", flags=SEQUENTIAL_WITH_TTL)),
    *(SetData("/a"), SetData("/a", version=7), SetData("/none")),
    *(GetData("/a"), Exists("/none"), Sync("/a")),
    *(SetAcl("/a", (*OPEN, (1, "ip", "127.0.0.1"))), SetAcl("/a", ()), SetAcl("/none")),
    SetAcl("/a", ((0, "world", "anyone"),), 9),
    *(
        SetAcl("/a", ((1, "ip", None),)),
        SetAcl("/a", ((1, None, "x"),)),
        Create("/null", acls=((1, "auth", None),)),
    ),
    *(Create("/locked", acls=_LOCKED), SetData("/locked")),
    *(Delete("/a/s-0000000001"), Delete("/a"), Delete("/none")),
    *(_MULTI, Multi((Create("/n"), Delete("/none"))), Multi()),
    *(AddAuth("digest", b"joe:word"), Create("/joe", acls=((31, "auth", ""),))),
    *(SetAcl("/joe", ((3, "auth", ""),)), AddAuth("digest", b"amy:word"), Delete("/joe")),
    Create("/e", flags=EPHEMERAL),
]


def _run(port: int) -> str:
    """Send them one after the other, and end the session; its id as logs have it."""
    with Client(port) as session:
        for request in REQUESTS:
            session.ask_for_reply(request)
        session.close()
        return hex64(session.session.id)


def _lines(log: str, session: str, mark: str) -> list[str]:
    """A session's lines. The order of ephemerals at its end is not promised."""
    found = []
    for line in log.splitlines():
        _, marked, text = line.partition(mark)
        if not marked or f"session={session}\t" not in text:
            continue
        found.append(text.partition("\t")[2])
    ended = sorted(line for line in found if _ENDED in line)
    return [line for line in found if _ENDED not in line] + ended


def _settled(read: Callable[[], str], session: str, mark: str) -> list[str]:
    """The lines, once those of the session's end are there: the reply may come before them."""

    def is_whole() -> bool:
        ended = [line for line in _lines(read(), session, mark) if _ENDED in line]
        return len(ended) == _EPHEMERALS and all(line.endswith("result=success") for line in ended)

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
        session = _run(server.port)
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
        lines = _settled(read, _run(server.port), "zketcd.audit: ")
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
