"""The observer of the log, and sessions whose early end is set aside: their proxy has left them behind."""

import asyncio
from collections.abc import Sequence

import pytest

from lab.servers import EtcdServer
from proof.simulation.proxies import PREFIX
from proof.torture.cluster import later_incarnations
from proof.torture.observer import Observer
from proof.torture.real import RealClock
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Put, Txn
from proxy.log.follow.log_order import Apply, ProxyGone
from proxy.log.load.start import load_to_serve
from schema.entry import EntryWriter
from schema.errors import BadValue
from schema.keys import Keyspace

_LOG = """\
2026-01-01 00:00:00,000 INFO proxy.log.append.registration: registered as 0a
2026-01-01 00:00:09,000 WARNING proxy.log.append.incarnations: carrying sessions over from 0a; 3 sent again
2026-01-01 00:00:09,100 INFO proxy.log.append.registration: registered as 0b
"""


def test_the_later_incarnations_of_a_proxy_are_in_its_log() -> None:
    assert later_incarnations(_LOG, "0a") == ["0b"]
    assert later_incarnations(_LOG, "0b") == []
    assert later_incarnations(_LOG, "0c") == []


@pytest.mark.parametrize(
    ("log", "successors", "is_left"),
    [
        (["0a"], [], False),  # its proxy lives
        (["0a", "end of 0a"], [], True),  # the process is gone
        (["0a", "end of 0a"], ["0b"], True),  # it has come back, and could not tell yet
        (["0a", "end of 0a", "0b"], ["0b"], False),  # what it says first is that it takes its sessions over
        (["0a", "end of 0a", "0c"], ["0b", "0c"], False),
        (["0a", "end of 0a", "0d"], ["0b"], True),
        (["0a", "0b", "0a", "end of 0a"], ["0b"], True),  # one that took over, and failed
        (["end of 0a", "0b"], ["0b"], False),
    ],
)
async def test_a_session_is_left_behind_until_a_new_incarnation_of_its_proxy_has_appended_something(
    log: Sequence[str], successors: Sequence[str], is_left: bool
) -> None:
    observer = Observer(RealClock(1), ["http://127.0.0.1:1"])
    ended: list[int] = []
    observer.on_expiry = ended.append
    # Code of a proxy calls it, and must not wait for a disk: messages are read when all is over.
    observer.successors = lambda _incarnation: pytest.fail("it reads the messages of proxies")
    _deliver(observer, log)
    observer.oracle.listeners.expired(7, "0a")
    assert ended == [7]
    _deliver(observer, ["0b"])  # later
    observer.successors = lambda incarnation: successors if incarnation == "0a" else []
    assert observer.excused() == ({7} if is_left else set())


def _deliver(observer: Observer, log: Sequence[str]) -> None:
    """Entries, by the names of their incarnations, and ends."""
    for what in log:
        name = what.removeprefix("end of ")
        position = observer.oracle.machine.entries + 1
        number = observer.oracle.machine.applied.get(name, 0) + 1
        entry = EntryWriter().finish(0, 0, 0, 0)
        item = Apply(position, name, number, entry) if name == what else ProxyGone(name, position)
        observer.deliver([item])


async def test_what_uses_an_observer_ends_with_it(own_etcd_server: EtcdServer) -> None:
    """Else clients wait for minutes for what a dead observer never sees."""
    etcd = EtcdClient([own_etcd_server.endpoint])
    try:
        loaded = await load_to_serve(etcd, Keyspace(PREFIX))
        assert loaded.machine.entries == 0
        observer = Observer(RealClock(1), [own_etcd_server.endpoint])

        async def use() -> None:
            async with observer.following():
                await etcd.txn(Txn((), (Put(Keyspace(PREFIX).entry("0a", 1), b"not an entry"),)), 5)
                await asyncio.sleep(60)

        with pytest.raises(ExceptionGroup) as ended:
            await use()
        assert ended.group_contains(BadValue)
    finally:
        await etcd.close()
