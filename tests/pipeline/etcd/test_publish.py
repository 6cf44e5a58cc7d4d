"""Parts become one tree, with its sessions, or are refused."""

import pytest

from lab.fakes.etcd import FakeEtcdClient
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import begin
from pipeline.etcd.publish import publish
from pipeline.etcd.requests import LoadRefused
from pipeline.etcd.sessions import password_of
from pipeline.table import SessionRow
from proxy.log.load import start
from proxy.log.record import TreeNotServable
from proxy.state.sessions import hash_of
from schema.keys import Keyspace
from tests.pipeline.etcd.rows import FIXED, load_part, load_tree, row

KEYS = Keyspace("/t")
OTHER = -(1 << 60)
SESSIONS = [SessionRow(0x100000001, 6000), SessionRow(OTHER, 30000)]


async def test_sessions_know_the_password_that_zookeeper_gave_them(etcd: FakeEtcdClient) -> None:
    record = await load_tree(etcd, KEYS, [row("/"), row("/e", owner=OTHER)], SESSIONS)
    machine = (await start.load_to_serve(etcd, KEYS)).machine
    assert set(machine.sessions) == {OTHER, 0x100000001}
    session = machine.sessions[OTHER]
    assert (session.timeout_ms, session.incarnation) == (30000, "")
    assert session.password_hash == hash_of(password_of(OTHER))
    assert machine.tree.ephemerals[OTHER] == {"/e"}
    assert record.current is not None
    assert (record.current.sessions, record.current.digest) == (2, machine.compute_digest())


async def test_a_session_of_which_only_ephemerals_came_ends_soon(etcd: FakeEtcdClient) -> None:
    """Otherwise its ephemerals would stay for ever: ZooKeeper deletes them when it starts."""
    await load_tree(etcd, KEYS, [row("/"), row("/e", owner=77), row("/f", owner=OTHER)], SESSIONS)
    sessions = (await start.load_to_serve(etcd, KEYS)).machine.sessions
    assert set(sessions) == {OTHER, 77, 0x100000001}
    assert sessions[77].timeout_ms == 10_000


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([["/", "/a"], ["/a", "/b"]], "a path came more than once: /a. Not published"),
        ([["/", "/a/b"]], "/a/b is in the table, but its parent /a is not. Not published"),
        ([["/a"]], "the table has no row for /"),
        ([], "the table has no row for /"),
    ],
)
async def test_what_is_no_tree_is_refused(etcd: FakeEtcdClient, rows: list[list[str]], reason: str) -> None:
    begun = await begin(etcd, KEYS)
    parts = [await load_part(etcd, KEYS, begun, map(row, paths)) for paths in rows]
    with pytest.raises(LoadRefused, match=reason):
        await publish(etcd, KEYS, begun, parts, 99, [], Limits())
    with pytest.raises(TreeNotServable):
        await start.load_to_serve(etcd, KEYS)
    await begin(etcd, KEYS)


async def test_fixed_nodes_of_the_table_stay_as_they_are(etcd: FakeEtcdClient) -> None:
    await load_tree(etcd, KEYS, [row("/"), FIXED[0]._replace(created=2), FIXED[2]._replace(data=b"q")])
    nodes = (await start.load_to_serve(etcd, KEYS)).machine.tree.nodes
    assert nodes["/zookeeper"].created == 2
    assert nodes["/zookeeper/quota"].data == b"q"
    assert nodes["/zookeeper/config"].aversion == -1
