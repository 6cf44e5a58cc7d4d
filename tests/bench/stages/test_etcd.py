"""The etcd that counts: it is right for the real client, and what whole crowds of sessions ask of it."""

import asyncio
from dataclasses import replace

from bench.scenarios.crowd import PING
from bench.stages.cases import CONFIG, serving
from bench.stages.clients import Asker
from bench.stages.etcd import Counts
from bench.stages.loop import MeteredLoop
from bench.stages.meter import Meter

_IDLE = 2000


def test_idle_sessions_cost_etcd_nothing() -> None:
    """However many there are: a proxy has one lease, and asks etcd once a second what is new."""
    meter = Meter()
    # What the proxy does by the clock is known by its tasks.
    with asyncio.Runner(loop_factory=lambda: MeteredLoop(meter)) as runner:
        spent, of_all, sessions = runner.run(_idle(meter))
    assert replace(spent, keep_alives=0, keep_alive_streams=0, background=0) == Counts()
    assert spent.keep_alives >= 2  # more where the machine is slow
    assert spent.background <= 8 * spent.keep_alives
    assert of_all.keep_alive_streams == 1
    assert of_all.watches == 1
    assert sessions == _IDLE


async def _idle(meter: Meter) -> tuple[Counts, Counts, int]:
    """What idle sessions ask of etcd from one keep-alive to the next but one, and what was asked in all."""
    async with serving(meter, CONFIG) as (server, etcd):
        clients = [Asker(server, meter, timeout_ms=CONFIG.max_session_timeout) for _ in range(_IDLE)]
        for client in clients:
            await client.connected()
        before = etcd.counts.copy()
        async with asyncio.timeout(60):
            while etcd.counts.keep_alives < before.keep_alives + 2:
                await asyncio.sleep(0.1)
                for client in clients:
                    client.give(PING)
        return etcd.counts.since(before), etcd.counts.copy(), server.facts.subject.session_count


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
