"""ZooKeeper's C client, as Debian ships it: nodes, watches, sessions, and its shell."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from lab.servers import EtcdServer, wait_until
from lab.servers.process import ServerProcess
from tests.clients.c_client import (
    AUTH_FAILED_STATE,
    CHANGED,
    CHILD,
    CONNECTED_STATE,
    CONTAINER,
    CREATED,
    DELETED,
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    SEQUENTIAL,
    SEQUENTIAL_WITH_TTL,
    WITH_TTL,
    CClient,
    Refused,
    Watch,
    library,
    shell_program,
)
from tests.clients.conftest import two_servers

Pair = tuple[ServerProcess, ServerProcess]

OK, RUNTIME_INCONSISTENCY, NO_NODE, NO_AUTH, BAD_VERSION = 0, -2, -101, -102, -103
NO_CHILDREN_FOR_EPHEMERALS, NODE_EXISTS, NOT_EMPTY, INVALID_ACL = -108, -110, -111, -114
AUTH_FAILED, NO_WATCHER = -115, -121


@pytest.fixture(scope="module")
def servers(etcd_server: EtcdServer) -> Iterator[Pair]:
    library()
    with two_servers(etcd_server, f"/test-c-client-{os.getpid()}") as started:
        yield started


@pytest.fixture
def client(servers: Pair) -> Iterator[CClient]:
    with CClient(servers[0].address) as connected:
        yield connected


@pytest.fixture
def other(servers: Pair) -> Iterator[CClient]:
    """A client of the second server."""
    with CClient(servers[1].address) as connected:
        yield connected


@pytest.fixture
def path(client: CClient, other: CClient, request: pytest.FixtureRequest) -> str:
    """An empty node of the test's own, which both clients see."""
    made, _ = client.create(f"/{request.node.name}")
    other.sync()
    return made


def code_of(error: pytest.ExceptionInfo[Refused]) -> int:
    return error.value.code


def test_every_mode_of_create(client: CClient, other: CClient, path: str) -> None:
    kinds: dict[str, tuple[int, int]] = {
        "plain": (0, -1),
        "ephemeral": (EPHEMERAL, -1),
        "sequential-": (SEQUENTIAL, -1),
        "both-": (EPHEMERAL_SEQUENTIAL, -1),
        "container": (CONTAINER, -1),
        "ttl": (WITH_TTL, 600_000),
        "ttl-sequential-": (SEQUENTIAL_WITH_TTL, 600_000),
    }
    made = {}
    for number, (name, (mode, ttl)) in enumerate(kinds.items()):
        made[name], stat = client.create(f"{path}/{name}", name.encode(), mode, ttl=ttl)
        suffix = f"{number:010d}" if name.endswith("-") else ""
        assert made[name] == f"{path}/{name}{suffix}"
        assert stat.ephemeral_owner == (client.session if mode in (EPHEMERAL, EPHEMERAL_SEQUENTIAL) else 0)
        assert stat.czxid == stat.mzxid == stat.pzxid > 0
    other.sync()
    assert {f"{path}/{name}" for name in other.children(path)[0]} == set(made.values())
    assert [other.get(at)[0] for at in made.values()] == [name.encode() for name in made]
    assert client.create_without_stat(f"{path}/old-", SEQUENTIAL) == f"{path}/old-{len(kinds):010d}"


def test_watches(client: CClient, other: CClient, path: str) -> None:
    data, children, absent = Watch(), Watch(), Watch()
    client.get(path, data)
    client.children(path, children)
    with pytest.raises(Refused):
        client.exists(f"{path}/absent", absent)
    other.set(path, b"1")
    other.create(f"{path}/absent")
    assert [data.next(), absent.next(), children.next()] == [
        (CHANGED, path),
        (CREATED, f"{path}/absent"),
        (CHILD, path),
    ]
    client.exists(f"{path}/absent", absent)
    other.delete(f"{path}/absent")
    assert absent.next() == (DELETED, f"{path}/absent")
    client.sync()
    assert [data.told.empty(), children.told.empty()] == [True, True], "each fired once"


def test_an_unknown_scheme_ends_the_session(servers: Pair) -> None:
    with CClient(servers[0].address) as client:
        with pytest.raises(Refused) as refused:
            client.authenticate("no-such-scheme", b"x")
        assert code_of(refused) == AUTH_FAILED
        wait_until(lambda: client.state == AUTH_FAILED_STATE, "the handle knows")


def test_a_session_goes_on_at_the_other_server(servers: Pair, other: CClient, path: str) -> None:
    first, second = servers
    with CClient(f"{first.address},{second.address}", timeout_ms=30_000) as moving:
        session = moving.session
        moving.create(f"{path}/mine", mode=EPHEMERAL)
        watch, absent = Watch(), Watch()
        moving.get(path, watch)
        with pytest.raises(Refused):
            moving.exists(f"{path}/absent", absent)
        first.kill()
        first.start()
        if first is second:
            other.wait_for(CONNECTED_STATE)
        moving.wait_for(CONNECTED_STATE)
        assert moving.session == session
        other.set(path, b"after")
        other.create(f"{path}/absent")
        assert (watch.next(), absent.next()) == ((CHANGED, path), (CREATED, f"{path}/absent"))
        assert moving.exists(f"{path}/mine").ephemeral_owner == session
    other.sync()
    with pytest.raises(Refused) as refused:
        other.exists(f"{path}/mine")
    assert code_of(refused) == NO_NODE


def test_the_shell(servers: Pair, path: str) -> None:
    def run(command: str) -> str:
        done = subprocess.run(
            [shell_program(), "-h", servers[0].address, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout

    assert "rc = 0" in run(f"create +s {path}/seq-")
    assert "rc = 0" in run(f"set {path}/seq-0000000000 value")
    assert "value_len = 5\nvalue\n" in run(f"get {path}/seq-0000000000")
    assert "\tseq-0000000000\n" in run(f"ls {path}")
    assert "rc = 0" in run(f"delete {path}/seq-0000000000")
    assert f"rc = {NO_NODE}" in run(f"get {path}/seq-0000000000")
