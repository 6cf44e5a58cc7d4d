"""Random histories of several proxies: the machine beside the naive ZooKeeper, and beside one loaded anew.

tests/faults/test_determinism.py compares processes with other hash seeds.
"""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from codec.constants import OpCode
from lab.oracle import requests as oracle
from proof import naive
from proof.simulation.naive_judge import naive_tree
from proxy.state.operation import WriteOperation
from proxy.state.ops import EXTENDED, ROWS
from proxy.state.outcome import CarriedOver
from proxy.state.pause import NO_PAUSE, Lengths, Pause
from schema.entry import EntryWriter, Kind, decode_entry
from tests.proxy.state.long_history import HOLDERS
from tests.proxy.state.requests import SESSIONS, parts, requests
from tests.proxy.state.world import (
    RULES,
    Ask,
    Attach,
    CarryOver,
    Expire,
    Open,
    Said,
    World,
    all_pages,
    answer_of,
    assert_same_tree,
    assert_sound,
    naive_answer,
    reloaded,
    request_of,
    sampled,
)

_holders = st.sampled_from(HOLDERS)
_sessions = st.sampled_from(SESSIONS)
said: st.SearchStrategy[Said] = st.one_of(
    *[st.builds(Ask, _sessions, requests)] * 6,
    st.builds(Open, _sessions),
    st.builds(Attach, _sessions),
    st.builds(Expire, _sessions, st.sampled_from(("", *HOLDERS))),
    st.builds(CarryOver, _holders),
)
entries = st.lists(st.tuples(_holders, st.lists(said, max_size=6)), max_size=8)
_OPENED: tuple[str, list[Said]] = ("p1", [Open(session) for session in SESSIONS])
_AMONG_MANY = settings(max_examples=2000, derandomize=True, database=None, phases=[Phase.generate])


@pytest.mark.parametrize("strategy", [requests, parts], ids=["requests", "parts"])
def test_histories_have_every_write(strategy: st.SearchStrategy[naive.Asked]) -> None:
    writes = {opcode: row for opcode, row in ROWS.items() if isinstance(row, WriteOperation)}
    wanted = {
        opcode for opcode, row in writes.items() if (row.part if strategy is parts else not row.only_part)
    }
    # create2 differs from create in its reply; sync and reconfig change nothing.
    wanted -= {OpCode.CREATE2, OpCode.SYNC, OpCode.RECONFIG}
    seen = set()

    def have_all(request: naive.Asked) -> bool:
        seen.add(oracle.opcode(request))
        return wanted <= seen

    with suppress(NoSuchExample):
        find(strategy, have_all, settings=_AMONG_MANY)
    assert wanted - seen == set()


@pytest.mark.parametrize("pause", [NO_PAUSE, Pause(Lengths(every=1))], ids=["at a stretch", "with pauses"])
@given(entries)
def test_the_machine_does_what_a_plain_zookeeper_does(
    pause: Pause, history: list[tuple[str, list[Said]]]
) -> None:
    world = World(sessions=())
    world.machine.transaction.pause = pause
    model = naive_tree()
    for clock, (holder, asked) in enumerate([_OPENED, *history]):
        world.events.clear()
        model.events.clear()
        world.machine.begin(holder, world.machine.applied.get(holder, 0) + 1, clock, RULES)
        for single in asked:
            expected = naive_answer(model, holder, single, clock)
            outcome = world.machine.execute(request_of(single), wants_reply=True)
            world.events += world.machine.transaction.events
            assert answer_of(single, outcome) == expected, single
            assert world.machine.zxid == model.zxid, single
        world.machine.end()
        assert sampled(world.events) == model.events
        assert_same_tree(world.machine, model)


def _both(first: World, second: World, holder: str, asked: list[Said], *, own: bool) -> None:
    """Apply an entry to both, as the sender and as another server; nothing may differ."""
    writer = EntryWriter()
    for single in asked:
        writer.add(*request_of(single))
    entry = decode_entry(writer.finish(9, RULES, *first.machine.last_checkpoint))
    number = first.machine.applied.get(holder, 0) + 1
    seen: list[Any] = []
    for world, answers in ((first, own), (second, not own)):
        machine = world.machine
        assert machine.begin(holder, number, entry.clock, entry.rules, entry.checkpoint, entry.digest) is None
        told: list[Any] = []
        for request in entry.requests:
            fields = None
            if answers and request.kind == Kind.CLIENT:  # the sender has decoded it before it sent it
                fields = EXTENDED.writes[request.opcode].decode(b"head" + request.body, 4)[0]
            outcome = machine.execute(request, fields, answers)
            changes = [
                each._replace(session_ids=sorted(each.session_ids)) if isinstance(each, CarriedOver) else each
                for each in machine.session_changes
            ]
            told.append((outcome.err, machine.zxid, list(machine.transaction.events), changes))
        machine.end()
        seen.append(told)
    assert seen[0] == seen[1]


@given(entries)
def test_a_machine_loaded_after_every_entry_goes_on_as_the_one_that_ran(
    history: list[tuple[str, list[Said]]],
) -> None:
    """Also of the order of events; and all ways to come to a state give the same pages."""
    ran, loaded = World(sessions=()), World(sessions=())
    for turn, (holder, asked) in enumerate([_OPENED, *history]):
        _both(ran, loaded, holder, asked, own=turn % 2 == 0)
        assert all_pages(ran.machine) == all_pages(loaded.machine)
        loaded = World(sessions=(), machine=reloaded(loaded.machine))
        assert_sound(loaded.machine)
        assert all_pages(ran.machine) == all_pages(loaded.machine)
