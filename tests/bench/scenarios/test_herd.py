"""A herd of clients."""

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from bench.errors import BadReply
from bench.scenarios import herd
from lab.servers import ZketcdServer, ZooKeeperServer
from lab.servers.tls import Authority


@pytest.mark.parametrize("is_new", [True, False])
def test_clients_come_back_with_their_sessions(zketcd_server: ZketcdServer, is_new: bool) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(herd.Client())) for _ in range(20)]
        assert min(herd.arrive(clients, zketcd_server.port, None)) > 0
        sessions = [client.session for client in clients]
        assert len(set(sessions)) == 20
        for client in clients:
            client.close()
            if is_new:
                client.session = 0
        herd.arrive(clients, zketcd_server.port, None)
        assert (sessions == [client.session for client in clients]) is not is_new


def test_a_refused_session_is_no_figure(zookeeper_server: ZooKeeperServer) -> None:
    with closing(herd.Client()) as client:
        client.session = 4711
        with pytest.raises(BadReply):
            herd.arrive([client], zookeeper_server.port, None)


@pytest.mark.real
@pytest.mark.parametrize("name", ["zookeeper", "zketcd"])
def test_a_herd_with_tls(name: str, tmp_path: Path) -> None:
    arrivals = herd.measure(herd.Kind(name, tls=True), 4, Authority(tmp_path))
    assert len(arrivals) == len(herd.ARRIVALS)
    assert all(arrival.half <= arrival.all for arrival in arrivals)
    assert [arrival.back > 0 for arrival in arrivals] == [False, True, True]
