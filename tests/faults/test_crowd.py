"""Hundreds of clients of two proxies: sequential names, versioned counters, locks, ephemerals that move."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from lab.client import blocking as zk
from lab.client.blocking import (
    DELETED,
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    OK,
    Client,
    Request,
    events_of,
)
from lab.servers import ZketcdServer
from tests.faults.agreement import assert_same

_COUNT = 300
Pair = tuple[ZketcdServer, ZketcdServer]


@pytest.fixture
def crowd(pair: Pair) -> Iterator[list[Client]]:
    """The clients, every other one at the other proxy."""
    with ExitStack() as stack:
        yield [stack.enter_context(Client(pair[number % 2].port)) for number in range(_COUNT)]


def all_at_once(
    crowd: Sequence[Client], requests: Callable[[int], Sequence[Request[Any]]]
) -> list[list[zk.Reply]]:
    """All send their requests before anyone waits; returns each one's errors and replies."""
    sent = [(client, client.send(*requests(number))) for number, client in enumerate(crowd)]
    told = []
    for client, xids in sent:
        replies = [client.reply_to(xid) for xid in xids]
        told.append(replies)
    return told


def test_a_lock_goes_from_one_to_the_next(crowd: list[Client], pair: Pair) -> None:
    """Each holder ends its session in some way; the one behind it, and no other, is told."""
    crowd[0].create("/lock")
    for client in crowd:
        client.sync()
    told = all_at_once(crowd, lambda _: [zk.create("/lock/n-", b"", EPHEMERAL_SEQUENTIAL)])
    places = {reply.path: number for number, (reply,) in enumerate(told)}
    queue = [crowd[places[path]] for path in sorted(places)]
    paths = sorted(places)
    for client in queue:
        client.sync()
    tokens = []
    for client, before in zip(queue[1:], paths, strict=False):
        assert client.stat(before, watch=True) is not None
    for place, client in enumerate(queue):
        if place:
            assert events_of(client, 1) == [(DELETED, paths[place - 1])]
        assert not any(later.events for later in queue[place + 1 : place + 4])
        # The holder's czxid is its fencing token.
        client.sync()
        assert min(client.children("/lock")[0]) == paths[place].rpartition("/")[2]
        stat = client.stat(paths[place])
        assert stat is not None
        assert stat.ephemeral_owner == client.id
        tokens.append(stat.czxid)
        if place % 3 == 0:
            client.call(zk.delete(paths[place]))
        elif place % 3 == 1:
            client.close()
        else:
            client.reconnect(pair[place % 2].port)  # its watch has fired, its node moves with it
            client.close()
    assert tokens == sorted(set(tokens)), "tokens grow"


def test_ephemerals_that_move(crowd: list[Client], pair: Pair) -> None:
    crowd[0].create("/e")
    for client in crowd:
        client.sync()
    all_at_once(crowd, lambda number: [zk.create(f"/e/{number}", b"", EPHEMERAL)])
    for turn in range(2):
        for number, client in enumerate(crowd):
            client.reconnect(pair[(number + 1 + turn) % 2].port)
        told = all_at_once(crowd, lambda number: [zk.set_data(f"/e/{number}", b"", turn)])  # noqa: B023
        assert {reply.err for (reply,) in told} == {OK}
    for client in crowd[:2]:
        client.sync()
        assert client.children("/e")[0] == {str(number) for number in range(_COUNT)}
    for number in range(0, _COUNT, 7):
        stat = crowd[number % 2].stat(f"/e/{number}")
        assert stat is not None
        assert stat.ephemeral_owner == crowd[number].id
    all_at_once(crowd[2:], lambda _: [zk.CLOSE])
    assert_same(crowd[0], crowd[1])
    names, stat = crowd[0].children("/e")
    assert names == {"0", "1"}
    assert stat.cversion == 2 * _COUNT - 2
