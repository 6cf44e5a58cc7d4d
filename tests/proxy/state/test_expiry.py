"""Which containers and TTL nodes are due, by what one server has seen on its own clock."""

import random

import pytest

from codec.jute import OPEN_ACL
from proxy.state.expiry import Expiry
from proxy.state.node import FullNode
from schema.entry import NodeDue
from schema.znode import CONTAINER_OWNER, MAX_TTL, ttl_owner
from tests.table import one_by_one

_DAY = 86_400_000  # ms


def _node(owner: int, *, mzxid: int = 12, created: int = 0) -> FullNode:
    return FullNode(b"", OPEN_ACL, owner, 11, mzxid, 13, 14, 15, 16, created, 0)


@one_by_one(
    ("owner", "created", "age", "max_never_used", "due"),
    [
        (CONTAINER_OWNER, 1, 0, 0, True),
        (CONTAINER_OWNER, 0, 1 << 50, 0, False),
        (CONTAINER_OWNER, 0, 100, 100, False),
        (CONTAINER_OWNER, 0, 101, 100, True),
        (ttl_owner(100), 0, 100, 0, False),
        (ttl_owner(100), 0, 101, 0, True),
        (ttl_owner(100), 5, 100, 1, False),
        (ttl_owner(MAX_TTL), 0, MAX_TTL, 0, False),
    ],
)
def test_what_is_due(owner: int, created: int, age: int, max_never_used: int, due: bool) -> None:
    node = _node(owner, created=created)
    expiry = Expiry(max_never_used)
    expiry.note(12, 5000)
    expected = NodeDue("/n", 16, 15, 11, max_never_used) if due else None
    assert expiry.due("/n", node, 5000 + age) == expected
    node.children = {"/n/child": None}
    assert expiry.due("/n", node, 5000 + age) is None


def test_the_time_begins_with_the_write_and_not_with_the_first_look() -> None:
    expiry = Expiry(0)
    for zxid, now in ((10, 0), (20, 1000), (30, 2000)):
        expiry.note(zxid, now)
    for mzxid, now, due in (
        (15, 1500, False),
        (15, 1501, True),
        (20, 1501, True),
        (21, 2500, False),
        (21, 2501, True),
    ):
        assert (expiry.due("/t", _node(ttl_owner(500), mzxid=mzxid), now) is not None) is due


def test_what_was_written_after_the_last_note_has_no_age() -> None:
    """Nor does the clock of the host count that wrote it."""
    node = _node(ttl_owner(100))
    node.mtime = -(1 << 40)
    expiry = Expiry(0)
    assert expiry.due("/t", node, 1 << 50) is None
    expiry.note(11, 0)
    assert expiry.due("/t", node, 1 << 50) is None
    expiry.note(12, 1000)
    assert expiry.due("/t", node, 1100) is None
    assert expiry.due("/t", node, 1101) is not None


def test_of_another_state_nothing_is_known() -> None:
    expiry = Expiry(0)
    expiry.note(12, 0)
    expiry.forget()
    assert expiry.due("/t", _node(ttl_owner(100)), 200) is None
    expiry.note(12, 300)
    assert expiry.due("/t", _node(ttl_owner(100)), 400) is None
    assert expiry.due("/t", _node(ttl_owner(100)), 401) is not None


@pytest.mark.long
def test_a_month_takes_little_memory_and_ages_stay_exact_to_a_thousandth() -> None:
    expiry = Expiry(0)
    written: list[tuple[int, int]] = []  # zxid and time
    now = zxid = 0
    chance = random.Random(1)
    while now < 30 * _DAY:
        now += chance.choice((1000, 20_000, 60_000))
        zxid += chance.choice((1, 100))
        expiry.note(zxid, now)
        written.append((zxid, now))
    assert len(expiry._times) < 25_000
    for written_zxid, time in chance.sample(written, 2000):
        age = now - time
        node = _node(ttl_owner(age), mzxid=written_zxid)
        assert age == 0 or expiry.due("/t", node, now) is None, "too early"
        assert expiry.due("/t", node, now + 1 + age // 500) is not None, "too late"
