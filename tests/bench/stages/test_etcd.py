"""The etcd that counts: it is right for the real client, and what whole crowds of sessions ask of it."""

from bench.stages.cases import serving
from bench.stages.clients import Asker
from bench.stages.meter import Meter


async def test_a_crowd_that_connects_at_once_shares_its_entries() -> None:
    meter = Meter()
    async with serving(meter) as (server, etcd):
        before = etcd.counts.copy()
        clients = [Asker(server, meter) for _ in range(500)]
        for client in clients:
            await client.connected()
        spent = etcd.counts.since(before)
        assert spent.txns <= 12
        assert spent.puts == spent.txns
