"""The etcd that counts: it is right for the real client, and what whole crowds of sessions ask of it."""

import asyncio
from dataclasses import replace

from bench.scenarios.crowd import PING
from bench.stages.cases import CONFIG, serving
from bench.stages.clients import Asker
from bench.stages.etcd import Counts
from bench.stages.meter import Meter

_IDLE = 2000


async def test_idle_sessions_renew_their_leases_on_one_stream_and_ask_for_nothing_else() -> None:
    meter = Meter()
    async with serving(meter, replace(CONFIG, min_session_timeout=1000)) as (server, etcd):
        clients = [Asker(server, meter, timeout_ms=4000) for _ in range(_IDLE)]
        for client in clients:
            await client.connected()
        before = etcd.counts.copy()
        async with asyncio.timeout(60):
            while etcd.counts.keep_alives < before.keep_alives + _IDLE:
                await asyncio.sleep(0.1)
                for client in clients:
                    client.give(PING)
        spent = etcd.counts.since(before)
        # The proxy's own lease may have had the stream opened before.
        assert replace(spent, keep_alives=0, keep_alive_streams=0) == Counts()
        assert etcd.counts.keep_alive_streams == 1
        assert etcd.counts.watches == 1
        assert len(server.sessions) == _IDLE


async def test_a_crowd_that_connects_at_once_shares_its_txns() -> None:
    meter = Meter()
    async with serving(meter) as (server, etcd):
        before = etcd.counts.copy()
        clients = [Asker(server, meter) for _ in range(500)]
        for client in clients:
            await client.connected()
        spent = etcd.counts.since(before)
        assert spent.txns <= 12
        # Each session's own key, and each Txn's marker.
        assert spent.puts == 500 + spent.txns
