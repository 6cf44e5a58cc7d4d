"""Whole runs: good ones on real ZooKeeper and zketcd, and wrong replicas and servers, which are found."""

import argparse
from collections.abc import Sequence
from typing import Any

import pytest

from codec.client import create
from codec.constants import CreateMode
from examples.database_replicated.__main__ import WORKLOAD
from examples.database_replicated.ledger import Ledger
from examples.database_replicated.replica import Replica, Settings
from examples.database_replicated.run import run
from examples.invariants import Violation
from examples.program import Findings, Surroundings, main, parser
from examples.tree import delete_tree
from lab.client.meter import Meter
from lab.client.session import Address, connected
from lab.servers import ZketcdServer, ZooKeeperServer
from lab.servers.waiting import eventually


def _options(**given: object) -> argparse.Namespace:
    options = parser(WORKLOAD).parse_args(["localhost:1", "--seconds", "0.5", "--replicas", "3"])
    for name, value in {"session_timeout": 4.0, "losses": 0, "lock_pause": 0.005, **given}.items():
        setattr(options, name, value)
    return options


async def _enough(ledger: Ledger) -> None:
    """However slow the machine is, so many entries are there before a run ends."""

    async def there() -> bool:
        return ledger.last > 40

    await eventually(there, "40 entries", 120.0)


async def _run(addresses: Sequence[Address], options: argparse.Namespace, **how: Any) -> Findings:
    async with connected(addresses) as session:
        root = await session.call(create("/database-", mode=CreateMode.PERSISTENT_SEQUENTIAL))
        try:
            return await run(Surroundings(addresses, root, Meter()), options, meanwhile=_enough, **how)
        finally:
            await delete_tree(session, root)


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeperServer) -> list[Address]:
    return [Address("127.0.0.1", zookeeper_server.port)]


async def test_a_run_on_two_proxies_with_all_kinds_of_losses(
    zketcd_pair: tuple[ZketcdServer, ZketcdServer],
) -> None:
    addresses = [Address("127.0.0.1", server.port) for server in zketcd_pair]
    found = await _run(addresses, _options(losses=4, session_timeout=2.0, logs_to_keep=8))
    assert found.facts["replicas lost"] == 4
    assert _total(found, "recoveries") >= 2
    assert _total(found, "entries deleted") > 0


def _total(found: Findings, what: str) -> float:
    """In the timed part, and after it."""
    return sum(number for name, number in found.facts.items() if name.startswith(what))


async def test_initiators_that_are_cancelled(zookeeper: list[Address]) -> None:
    found = await _run(zookeeper, _options(), cancel_after_s=0.0005)
    assert _total(found, "entries rolled back") > 0


async def test_a_single_replica(zookeeper: list[Address]) -> None:
    found = await _run(zookeeper, _options(replicas=1, losses=4, session_timeout=1.5))
    assert found.facts["replicas lost"] == 3, "nobody would append entries while it stays away"


def test_the_command(zookeeper_server: ZooKeeperServer, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [zookeeper_server.address, "--replicas", "2", "--seconds", "0.5", "--losses", "0"]
    assert main(WORKLOAD, arguments) == 0
    printed = capsys.readouterr().out
    assert "| requests a DDL entry |" in printed
    assert printed.endswith("all invariants held\n")


class _SkipsAnEntry(Replica):
    _skipped = False

    async def _is_committed(self, number: int) -> bool:
        committed = await super()._is_committed(number)
        if committed and number > 6 and not self._skipped:
            self._skipped = True
            return False
        return committed


async def test_a_wrong_replica_is_found(zookeeper: list[Address]) -> None:
    def kind(number: int, settings: Settings) -> Replica:
        return (_SkipsAnEntry if number == 1 else Replica)(number, settings)

    with pytest.raises(Violation) as found:
        await _run(zookeeper, _options(), kind=kind, timeout_s=60.0)
    assert found.value.invariant in {"lost", "agreement"}, found.value
