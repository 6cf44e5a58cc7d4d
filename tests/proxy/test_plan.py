"""From requests to etcd and back: draft, batch, plan, the fake etcd, events and mirror in one round.

What clients may see must be what ZooKeeper, one request at a time, would have shown them.
"""

from hypothesis import given

from proxy.batch import Batch
from schema.paths import parent_of
from tests.proxy import naive
from tests.proxy.requests import SESSIONS, batches
from tests.proxy.world import (
    Proxy,
    Store,
    answer_of,
    assert_same_tree,
    naive_answer,
    naive_tree,
    request_of,
)


def _interest(events: list[tuple[int, str]], path: str) -> list[tuple[int, str]]:
    """The events that may notify a watch on `path`."""
    return [event for event in events if event[1] == path or parent_of(event[1]) == path]


def _run(
    proxies: list[Proxy], model: naive.NaiveZooKeeper, asked: list[tuple[int, naive.Asked]], now: int
) -> None:
    """Commit one batch, compare everything that shows."""
    proxy = proxies[0]
    batch = proxy.batch(now)
    requests = [request_of(session, single) for session, single in asked]
    for request in requests:
        assert batch.add(request)
    result = proxy.commit(batch)
    zxid = proxy.mirror.zxid_of(result.revision)
    model.events.clear()
    expected = [naive_answer(model, session, single, zxid, now) for session, single in asked]
    assert [answer_of(request, zxid) for request in requests] == expected
    assert all(nested.succeeded for nested in result.responses[1:])  # type: ignore[union-attr]
    for each in proxies:
        each.watches.fired.clear()
        each.catch_up()
        assert_same_tree(each, model)
        fired = each.watches.fired
        assert sorted(fired) == sorted(model.events)
        for path in {event[1] for event in fired} | {parent_of(event[1]) for event in fired}:
            assert _interest(fired, path) == _interest(model.events, path)


@given(batches)
def test_what_comes_back_is_what_a_plain_zookeeper_shows(script: list[list[tuple[int, naive.Asked]]]) -> None:
    store = Store(SESSIONS)
    proxies = [Proxy(store), Proxy(store)]
    model = naive_tree(SESSIONS)
    for number, asked in enumerate(script):
        _run(proxies, model, asked, 1000 + number)
    assert_same_tree(Proxy(store), model)
