"""What clients of several proxies see, and in which order: events, replies, zxids."""

from contextlib import ExitStack

import pytest

from lab.client import blocking as zk
from lab.client.blocking import (
    CHANGED,
    CHILDREN,
    CREATED,
    DELETED,
    EPHEMERAL,
    Client,
    Event,
    Reply,
    events_of,
)
from lab.servers import ZketcdServer, wait_until

Pair = tuple[ZketcdServer, ZketcdServer]

BOTH = pytest.mark.parametrize("elsewhere", [False, True], ids=["same-proxy", "other-proxy"])


def test_a_read_between_two_sets_sees_the_first_and_its_watch_the_second(pair: Pair) -> None:
    with Client(pair[0].port) as client:
        client.create("/p1", b"old")
        client.create("/p2", b"old")
        xids = client.send(zk.set_data("/p1", b"new"), zk.get("/p2", watch=True), zk.set_data("/p2", b"new"))
        messages = [client.receive() for _ in range(4)]
        first, second, event, third = messages
        assert [message.xid for message in messages if isinstance(message, Reply)] == xids
        assert isinstance(first, Reply)
        assert isinstance(second, Reply)
        assert isinstance(third, Reply)
        assert second.data == b"old"
        assert isinstance(event, Event)
        assert (event.type, event.path) == (CHANGED, "/p2")
        assert first.zxid < event.zxid == third.zxid
        assert client.read("/p2")[0] == b"new"


@BOTH
def test_delete_and_create_of_a_node_in_one_multi(pair: Pair, elsewhere: bool) -> None:
    with Client(pair[0].port) as client, Client(pair[elsewhere].port) as watcher:
        client.create("/d")
        client.create("/d/n", b"old")
        client.write("/d/n", b"older")
        watcher.sync()
        before = watcher.stat("/d/n", watch=True)
        assert before is not None
        watcher.children("/d", watch=True)
        parts = client.transact([zk.delete("/d/n"), zk.create("/d/n", b"new")])
        assert [part.error for part in parts] == [0, 0]
        # The data watch and the child watch are used up by the deletion.
        assert events_of(watcher, 2) == [(DELETED, "/d/n"), (CHILDREN, "/d")]
        data, after = watcher.read("/d/n")
        assert data == b"new"
        assert after.czxid > before.mzxid
        assert (after.czxid, after.version) == (after.mzxid, 0)
        assert watcher.children("/d")[1].cversion == 3
        assert client.stat("/d/n") == after
        assert all(event.zxid == after.czxid for event in watcher.events)


@BOTH
def test_delete_and_create_fires_for_those_who_wait_for_either(pair: Pair, elsewhere: bool) -> None:
    """In a multi that ends where it began, a watch set behind the deletion would see the creation."""
    with Client(pair[0].port) as client, Client(pair[elsewhere].port) as watcher:
        client.create("/n")
        watcher.sync()
        watcher.children("/n", watch=True)
        client.transact([zk.delete("/n"), zk.create("/n"), zk.create("/n/child"), zk.set_data("/n", b"x")])
        assert events_of(watcher, 1) == [(DELETED, "/n")]
        watcher.sync()
        assert [(event.type, event.path) for event in watcher.events] == [(DELETED, "/n")]
        names, stat = watcher.children("/n")
        assert (names, stat.version, stat.cversion) == ({"child"}, 1, 1)
        assert stat.czxid == stat.mzxid == stat.pzxid


@BOTH
def test_create_and_delete_of_a_node_in_one_multi(pair: Pair, elsewhere: bool) -> None:
    with Client(pair[0].port) as client, Client(pair[elsewhere].port) as watcher:
        client.create("/d")
        watcher.sync()
        assert watcher.stat("/d/n", watch=True) is None
        watcher.children("/d", watch=True)
        before = watcher.stat("/d")
        assert before is not None
        client.transact([zk.create("/d/n"), zk.set_data("/d/n", b"x"), zk.delete("/d/n")])
        assert events_of(watcher, 2) == [(CREATED, "/d/n"), (CHILDREN, "/d")]
        assert watcher.stat("/d/n") is None
        after = watcher.stat("/d")
        assert after is not None
        assert (after.cversion, after.num_children) == (2, 0)
        assert after.pzxid == watcher.events[0].zxid > before.pzxid
        # Created, changed and deleted in one zxid: three events, of which a one-shot watch has the first.
        assert watcher.stat("/d/n", watch=True) is None
        client.transact([zk.create("/d/n"), zk.delete("/d/n"), zk.create("/d/n"), zk.delete("/d/n")])
        assert events_of(watcher, 3)[2:] == [(CREATED, "/d/n")]
        assert watcher.children("/d")[1].cversion == 6


@BOTH
def test_the_end_of_a_session_is_one_change(pair: Pair, elsewhere: bool) -> None:
    with (
        Client(pair[0].port) as client,
        Client(pair[0].port) as ending,
        Client(pair[elsewhere].port) as watcher,
    ):
        client.create("/d")
        ending.send(*(zk.create(f"/d/{number}", b"", EPHEMERAL) for number in range(5)))
        for _ in range(5):
            ending.receive()
        watcher.sync()
        for number in range(5):
            assert watcher.stat(f"/d/{number}", watch=True)
        watcher.children("/d", watch=True)
        ending.close()
        assert sorted(events_of(watcher, 6)) == sorted(
            [(DELETED, f"/d/{number}") for number in range(5)] + [(CHILDREN, "/d")]
        )
        (zxid,) = {event.zxid for event in watcher.events}
        names, stat = watcher.children("/d")
        assert (names, stat.pzxid, stat.cversion) == (set(), zxid, 10)


@BOTH
def test_events_come_before_what_was_read_behind_them(pair: Pair, elsewhere: bool) -> None:
    """A client that reads the second of two writes has had the event of the first."""
    with Client(pair[0].port) as writer, Client(pair[elsewhere].port) as reader:
        writer.create("/first", b"0")
        writer.create("/second", b"0")
        reader.sync()
        for number in range(1, 101):
            reader.call(zk.get("/first", watch=True))
            if number % 2:
                writer.write("/first", b"%d" % number)
                writer.write("/second", b"%d" % number)
            else:
                writer.send(zk.set_data("/first", b"%d" % number), zk.set_data("/second", b"%d" % number))

            def new(expected: bytes = b"%d" % number) -> bool:
                return reader.read("/second")[0] == expected

            wait_until(new, "the second write", interval=0)
            assert len(reader.events) == number, "the event of the first came before"
            if not number % 2:
                writer.receive()
                writer.receive()
        kinds = [(event.type, event.path) for event in reader.events]
        assert kinds == [(CHANGED, "/first")] * 100
        zxids = [message.zxid for message in reader.log]
        assert zxids == sorted(zxids)


def test_a_lasting_watch_misses_no_change_of_many_writers(pair: Pair) -> None:
    """Also where writes of several sessions share a Txn, whose net effect shows only the last."""
    with ExitStack() as stack:
        writers = [stack.enter_context(Client(pair[number % 2].port)) for number in range(6)]
        watchers = [stack.enter_context(Client(proxy.port)) for proxy in pair]
        writers[0].create("/hot")
        for watcher in watchers:
            watcher.sync()
            watcher.call(zk.add_watch("/", recursive=True))
            watcher.call(zk.add_watch("/hot", recursive=False))
        rounds = 40
        sent = []
        for number, writer in enumerate(writers):
            for count in range(rounds):
                name = f"/hot/{number}-{count}"
                sent += [
                    (writer, xid)
                    for xid in writer.send(zk.set_data("/hot", b""), zk.create(name), zk.delete(name))
                ]
        for writer, xid in sent:
            writer.result(xid)
        changes = len(writers) * rounds
        told = [events_of(watcher, 5 * changes) for watcher in watchers]
        for watcher, events in zip(watchers, told, strict=True):
            watcher.sync()
            assert len(watcher.events) == 5 * changes
            assert events.count((CHANGED, "/hot")) == changes
            assert events.count((CHILDREN, "/hot")) == 2 * changes
            for number in range(len(writers)):
                own = [event for event in events if event[1].startswith(f"/hot/{number}-")]
                assert own == [
                    (kind, f"/hot/{number}-{count}") for count in range(rounds) for kind in (CREATED, DELETED)
                ]
            zxids = [event.zxid for event in watcher.events]
            assert zxids == sorted(zxids)
        assert told[0] == told[1]
