"""A request that the state machine fails on: an error of the program."""

from contextlib import ExitStack

import pytest

from codec.client import create, multi
from lab.client.blocking import NO_NODE, OK, SYSTEM_ERROR, Client
from lab.servers import EtcdServer
from lab.servers.with_prelude import POISON, with_prelude
from tests.faults.conftest import Start

pytestmark = pytest.mark.real


def test_a_request_that_the_state_machine_fails_on_harms_nobody_else(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    with ExitStack() as stack:
        pair = [stack.enter_context(with_prelude(POISON, etcd_server, prefix=etcd_prefix)) for _ in range(2)]
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
        third = stack.enter_context(with_prelude(POISON, etcd_server, prefix=etcd_prefix))
        late = stack.enter_context(Client(third.port))
        assert late.children("/")[0] == {"zookeeper", "n", "before", "after"}
        assert late.refusal(create("/poison/x")) == NO_NODE
