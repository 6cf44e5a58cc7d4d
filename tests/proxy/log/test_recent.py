"""Recent changes: recorded between open and close, bounded, and none lost that is said to be here."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import client as zk
from lab.oracle.requests import encode_body, opcode
from proof import naive
from proxy.log.recent import Recent
from proxy.state import capture
from proxy.state.auth.scheme import Identity
from proxy.state.feed import Selection, id_of, size_of
from proxy.state.recording import Recording, What
from proxy.state.transaction import Transaction
from schema.entry import Kind, Request, encode_close, encode_epoch
from schema.followed import Followed, encode_followed
from tests.mirror import Mirror
from tests.proxy.log.proxies import until
from tests.proxy.log.test_applier import World, creation
from tests.proxy.log.trees import asked, created, opened
from tests.proxy.state.requests import requests

_OPEN = opened(1)


class _Place(World):
    """An applier and what it has recorded."""

    def __init__(self, slice_seconds: float = 60.0, most: int = 1 << 20) -> None:
        super().__init__(slice_seconds)
        self.recent = Recent(self.machine, self.applier, most)
        self.number = 0

    def apply(self, *requests: Request) -> None:
        """An entry of another proxy."""
        self.number += 1
        self.applier.apply([self.foreign(self.number, *requests)])

    def paths(self, after: int = 0) -> list[str]:
        return [each.path for made in self.recent.after(after, 1 << 30) for each in made.changes]


async def test_requests_of_all_proxies_are_recorded_while_there_is_a_reader() -> None:
    place = _Place()
    place.apply(_OPEN, creation("/before"))
    assert type(place.machine.transaction) is Transaction
    await place.recent.open()
    assert (place.recent.floor, place.recent.zxid) == (2, 2)
    place.apply(creation("/a"), creation("/a"), asked(1, zk.set_data("/a", b"x")))
    place.feed_own(opened(2), created(2, "/own"), created(2, "/own/none/none"))
    assert place.paths() == ["/a", "/a", "/own"]
    assert [made.zxid for made in place.recent.after(2, 1 << 30)] == [3, 5, 7]
    assert place.recent.zxid == place.machine.zxid == 8  # the last request has failed
    assert place.paths(after=5) == ["/own"]
    assert len(place.recent.after(2, 1)) == 1

    await place.recent.open()
    place.recent.close()
    assert isinstance(place.machine.transaction, Recording)
    place.recent.close()
    assert type(place.machine.transaction) is Transaction
    place.apply(creation("/unseen"))
    await place.recent.open()
    assert (place.paths(), place.recent.floor) == ([], 9)


async def test_a_request_with_many_changes_is_one() -> None:
    place = _Place()
    await place.recent.open()
    place.apply(_OPEN, *(created(1, f"/e{number}", b"", flags=1) for number in range(3)))
    place.apply(Request(Kind.CLOSE, 1, 0, (), encode_close("test", "")))
    made = place.recent.after(0, 1 << 30)[-1]
    assert (made.zxid, made.operation) == (5, "CLOSE")
    assert [(each.what, each.path) for each in made.changes] == [
        (What.DELETED, f"/e{number}") for number in range(3)
    ]


async def test_it_begins_between_two_entries() -> None:
    place = _Place(slice_seconds=0.0)
    place.apply(_OPEN, creation("/a"), creation("/b"))
    place.apply(creation("/c"))
    assert not place.worker.done
    await place.recent.open()
    assert place.recent.floor in (3, 4)
    await until(lambda: place.worker.done)
    assert place.paths() == (["/c"] if place.recent.floor == 3 else [])


@pytest.mark.long
async def test_what_is_kept_has_a_bound() -> None:
    place = _Place(most=100_000)
    await place.recent.open()
    place.apply(_OPEN)
    for number in range(3000):
        place.apply(created(1, f"/n{number}", b"x" * 1000))
    kept = place.recent.after(place.recent.floor, 1 << 30)
    assert 60 < len(kept) < 100
    assert kept[0].zxid == place.recent.floor + 1
    assert kept[-1].zxid == place.recent.zxid == 3001
    assert sum(map(size_of, place.recent._made)) <= 100_000
    assert len(place.recent._made) < 2500
    place.apply(created(1, "/large", b"x" * 200_000))
    assert place.paths(place.recent.floor) == ["/large"]


async def test_very_many_changes_are_taken_in_slices_and_shown_at_once() -> None:
    count = 4000
    ephemerals = [created(1, f"/n{number}", flags=1) for number in range(count)]
    close = Request(Kind.CLOSE, 1, 0, (), encode_close("", ""))
    turns = []
    for is_read in (False, True):
        place = _Place(slice_seconds=0, most=1)
        place.apply(_OPEN, opened(2), *ephemerals)
        await place.worker.drained()
        if is_read:
            await place.recent.open()
        turns.append(0)
        for request in (close, created(2, "/after")):
            place.apply(request)
            while not place.worker.done:
                assert place.paths(place.recent.floor) or place.recent.zxid == place.recent.floor
                await asyncio.sleep(0)
                turns[-1] += 1
        assert place.paths(place.recent.floor) == ["/after"] * is_read
    # To pick, to measure and to forget what was recorded, then to free it.
    assert turns[1] - turns[0] >= 4 * (count // 512)


async def test_a_restore_begins_anew() -> None:
    place = _Place()
    await place.recent.open()
    place.apply(_OPEN, creation("/a"))
    place.apply(Request(Kind.EPOCH, 0, 0, (), encode_epoch(77, 500)), creation("/b"))
    assert place.recent.floor == 1 << 32
    assert place.paths() == ["/b"]


async def test_a_copy_that_goes_on_without_its_source_begins_anew() -> None:
    place = _Place()
    await place.recent.open()
    place.apply(_OPEN, creation("/a"))
    lost = Followed(place.machine.zxid, 1 << 32, ["/a"], [], [], [], [], [], [])
    place.apply(Request(Kind.FOLLOWED, 0, 0, (), encode_followed(lost)), creation("/b"))
    assert place.recent.floor == 1 << 32
    assert place.paths() == ["/b"]


async def test_a_state_that_is_loaded_anew_ends_all_readers() -> None:
    place = _Place()
    await place.recent.open()
    place.apply(_OPEN, creation("/a"))
    waiting = asyncio.ensure_future(place.recent.news(60))
    await asyncio.sleep(0)
    loaded = capture.new_machine(1)
    loaded.zxid = 70
    await place.applier.become(loaded, place.recent.replaced)
    await waiting
    assert (place.paths(), place.recent.floor, place.recent.replacements) == ([], 70, 1)
    assert isinstance(place.machine.transaction, Recording)


async def test_news_wake_readers_and_who_waits_in_vain_leaves_nothing() -> None:
    place = _Place()
    await place.recent.open()
    for _ in range(3):
        await place.recent.news(0.001)
    assert place.recent._waiting == []
    waiting = [asyncio.ensure_future(place.recent.news(60)) for _ in range(2)]
    await asyncio.sleep(0)
    place.apply(_OPEN)
    assert not any(each.done() for each in waiting)
    place.apply(creation("/a"))
    await asyncio.gather(*waiting)


@given(st.lists(st.tuples(st.lists(requests, min_size=1, max_size=3), st.booleans()), max_size=12), st.data())
def test_a_mirror_that_breaks_off_anywhere_is_the_tree(
    entries: list[tuple[list[naive.Asked], bool]], data: st.DataObject
) -> None:
    async def run() -> None:
        place = _Place()
        await place.recent.open()
        place.apply(_OPEN)
        wanted = Selection("/", data=True, identities=(Identity("super", ""),), events=False)
        mirror = Mirror()

        def read(most: int) -> None:
            here = id_of(mirror.id or "0")
            found = place.recent.after(here.whole, 1 << 30)
            for line in [line for made in found for _, line in wanted.lines(made, here)][:most]:
                mirror.take(line)

        for entry, reads in entries:
            place.apply(*[Request(Kind.CLIENT, 1, opcode(each), (), encode_body(each)) for each in entry])
            if reads:
                read(data.draw(st.integers(0, 3)))
        read(1 << 30)
        nodes = {path: (node.version, node.data or b"") for path, node in place.machine.tree.nodes.items()}
        assert mirror.nodes == {path: each for path, each in nodes.items() if "zookeeper" not in path}

    asyncio.run(run())
