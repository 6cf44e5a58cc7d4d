"""A state that is wrong at one proxy, a request that the state machine fails on, a damaged snapshot."""

import signal
from contextlib import ExitStack

import pytest

from lab.client.blocking import NO_NODE, OK, SYSTEM_ERROR, Client, create, multi
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.operator import ctl, etcdctl, keys_of
from lab.servers.prepared import FLIPPING_DATA, POISON, prepared
from tests.faults.agreement import let_in_again
from tests.faults.conftest import Start

pytestmark = pytest.mark.real


def test_one_flipped_bit_makes_that_proxy_alone_load_again(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    with ExitStack() as stack:
        proxies: list[ZketcdServer] = [start(etcd_server, prefix=etcd_prefix) for _ in range(2)]
        wrong = stack.enter_context(prepared(FLIPPING_DATA, etcd_server, prefix=etcd_prefix))
        clients = [stack.enter_context(Client(proxy.port)) for proxy in (*proxies, wrong)]
        clients[0].create("/flip", b"data")
        clients[0].create("/n")
        for client in clients:
            client.sync()
        wrong.signal(signal.SIGRTMIN)
        wait_until(lambda: "flipped" in wrong.log_text(), "the bit has changed")
        assert clients[2].read("/flip")[0] == b"eata"
        # Its Stat changes: the digest takes the old hash of the node out, and this one has never been in.
        clients[0].create("/flip/child")

        def found_out() -> bool:
            for client in clients[:2]:
                client.write("/n", b"")
            return "its state is wrong, and is loaded anew" in wrong.log_text()

        wait_until(found_out, "the replay proves that one proxy wrong", interval=0)
        # It serves nobody until the load is over; then its clients go on with their sessions.
        clients[2].until_closed()
        let_in_again(clients[2], wrong.port)
        assert clients[2].read("/flip")[0] == b"data"
        # From here on everybody agrees.
        before = [proxy.log_text() for proxy in (*proxies, wrong)]
        for _ in range(40):
            for client in clients:
                client.write("/n", b"")
        for client in clients:
            client.sync()
            assert client.read("/flip")[0] == b"data"
        for proxy, text in zip((*proxies, wrong), before, strict=True):
            assert "says that after" not in proxy.log_text()[len(text) :]
        for proxy in proxies:
            assert "loaded anew" not in proxy.log_text()


def test_a_request_that_the_state_machine_fails_on_harms_nobody_else(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    with ExitStack() as stack:
        pair = [stack.enter_context(prepared(POISON, etcd_server, prefix=etcd_prefix)) for _ in range(2)]
        client, beside, other = (Client(proxy.port) for proxy in (pair[0], pair[0], pair[1]))
        for each in (client, beside, other):
            stack.enter_context(each)
        beside.create("/n")
        sent = client.send(
            create("/before"), create("/poison"), multi([create("/in"), create("/poison2")]), create("/after")
        )
        also = beside.send(create("/n/child"))
        assert [client.reply_to(xid).err for xid in sent] == [OK, SYSTEM_ERROR, SYSTEM_ERROR, OK]
        assert beside.reply_to(also[0]).err == OK
        for each in (client, beside, other):
            each.sync()
            assert each.children("/")[0] == {"zookeeper", "n", "before", "after"}
        for proxy in pair:
            assert "RuntimeError: injected" in proxy.log_text()
        # Enough entries for two checkpoints: both proxies count the failed requests alike.
        for number in range(70):
            (client, other)[number % 2].write("/n", b"%d" % number)
        for proxy in pair:
            assert "says that after" not in proxy.log_text()
        # A start replays the failure.
        third = stack.enter_context(prepared(POISON, etcd_server, prefix=etcd_prefix))
        late = stack.enter_context(Client(third.port))
        assert late.children("/")[0] == {"zookeeper", "n", "before", "after"}
        assert late.refusal(create("/poison/x")) == NO_NODE


def test_a_torn_page_is_refused_and_the_previous_snapshot_serves(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    first = start(etcd_server, prefix=etcd_prefix)
    with Client(first.port) as client:
        for number in range(3):
            client.create(f"/{number}", b"%d" % number)
            if number < 2:
                ctl(etcd_server, "snapshot", prefix=etcd_prefix)
        names = {"zookeeper", "0", "1", "2"}
        pages = keys_of(etcd_server, f"{etcd_prefix}/snapshot/")
        torn = max(key for key in pages if "/nodes/" in key)  # the newest snapshot has one such page
        etcdctl(etcd_server, "put", torn, "torn")
        second = start(etcd_server, prefix=etcd_prefix)
        with Client(second.port) as reader:
            assert reader.children("/")[0] == names
            assert reader.read("/1") == client.read("/1")
        assert "cannot be used" in second.log_text()
        # The next snapshot is a whole one again, made of what was loaded without the torn page.
        ctl(etcd_server, "snapshot", prefix=etcd_prefix)
        third = start(etcd_server, prefix=etcd_prefix)
        with Client(third.port) as reader:
            assert reader.children("/")[0] == names
        assert "cannot be used" not in third.log_text()
