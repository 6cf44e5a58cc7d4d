"""Whole runs: good ones on real ZooKeeper and zketcd, and wrong replicas and servers, which are found."""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from codec.constants import CreateMode, OpCode
from codec.jute import Reader
from examples.database_replicated.__main__ import WORKLOAD
from examples.database_replicated.layout import Layout, number_of
from examples.database_replicated.ledger import Ledger
from examples.database_replicated.replica import Replica, Settings
from examples.database_replicated.run import run
from examples.invariants import Violation
from examples.program import Findings, Surroundings, main, parser
from examples.tree import delete_tree
from lab.client.meter import Meter
from lab.client.requests import Children, Request, create
from lab.client.session import Address, Session, Watch, connected
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


class _HasALockOfItsOwn(Replica):
    def __init__(self, number: int, settings: Settings) -> None:
        super().__init__(number, settings)
        self._places = Layout(self._places.root)
        self._places.lock_node += "-of-its-own"

    async def _take_lock(self) -> tuple[str, int]:
        counter, zxid = await super()._take_lock()
        if self.proposing:
            last = self._ledger.last
            while True:  # as long as the run lasts
                await asyncio.sleep(0.01)
                if self._ledger.last > last:
                    break
        return counter, zxid


@pytest.mark.parametrize(
    ("wrong", "invariants"),
    [
        (_SkipsAnEntry, {"lost", "agreement"}),
        (_HasALockOfItsOwn, {"lock"}),
    ],
)
async def test_a_wrong_replica_is_found(
    wrong: type[Replica], invariants: set[str], zookeeper: list[Address]
) -> None:
    def kind(number: int, settings: Settings) -> Replica:
        return wrong(number, settings) if number == 1 else Replica(number, settings)

    with pytest.raises(Violation) as found:
        await _run(zookeeper, _options(), kind=kind, patience_s=60.0)
    assert found.value.invariant in invariants, found.value


class _HidesEntries(Session):
    """Its lists lack some entries of others, as if the server had lost them."""

    def __init__(self, address: Address, meter: Meter, operation_timeout_s: float) -> None:
        super().__init__(address, meter, operation_timeout_s)
        self._appended = b""

    def send(self, request: Request[Any], watch: Watch | None = None) -> asyncio.Future[Any]:
        if request.opcode == OpCode.MULTI:
            self._appended += request.body
        elif request.path.endswith("/log"):
            request = request._replace(read=partial(self._without, request.read))
        return super().send(request, watch)

    def _without(self, read: Callable[[Reader], Children], reader: Reader) -> Children:
        listing = read(reader)
        own = [name for name in listing.names if name.encode() in self._appended]
        return listing._replace(names=[*own, *(name for name in listing.names if number_of(name) % 4 < 3)])


async def test_a_wrong_server_is_found(zookeeper: list[Address], monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(addresses: Sequence[Address], first: int = 0, **options: Any) -> Session:
        options.pop("patience_s", None)
        return await (_HidesEntries if first == 1 else Session).open(addresses[0], **options)

    monkeypatch.setattr("examples.database_replicated.replica.connect", connect)
    with pytest.raises(Violation) as found:
        await _run(zookeeper, _options(), patience_s=30.0)
    assert found.value.invariant in {"lost", "agreement", "order"}, found.value
