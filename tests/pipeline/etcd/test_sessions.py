"""Session passwords, as real ZooKeepers have given them out."""

import pytest

from lab.oracle.wire import Connection, Session
from lab.servers import ZooKeeperServer
from pipeline.etcd.sessions import password_of


def test_the_password_is_the_one_that_java_makes() -> None:
    # new java.util.Random(0L).nextBytes(...) by the specification of its generator
    assert password_of(0xB3415C00).hex() == "60b420bb3851d9d47acb933dbe70399b"


def test_a_real_server_gives_it(zookeeper_server: ZooKeeperServer) -> None:
    connection = Connection(zookeeper_server.port)
    session = connection.connect()
    connection.close()
    assert isinstance(session, Session)
    assert session.password == password_of(session.id)


@pytest.mark.parametrize("session_id", [-1, -(1 << 63), (1 << 63) - 1])
def test_ids_are_signed(session_id: int) -> None:
    assert len(password_of(session_id)) == 16
    assert password_of(session_id) == password_of(session_id & 0xFFFFFFFFFFFFFFFF)
