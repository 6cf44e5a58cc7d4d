"""Budgets: what they are, what they cost, and that every server decides alike.

proof/simulation/test_naive_judge compares what is left of them with a naive ZooKeeper: after random requests
of all kinds, under random rules, from servers whose clocks differ and jump.
"""

from collections.abc import Iterable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import client as zk
from codec.constants import ErrorCode, OpCode
from proxy.state.budgets import MOST_BUDGETS, Budgets
from proxy.state.capture import load, new_machine
from proxy.state.effect import Effect
from proxy.state.machine import CHECKPOINT_EVERY, Machine
from proxy.state.operation import WriteOperation
from proxy.state.ops import PLAIN
from proxy.state.outcome import Disagreement
from proxy.state.pause import NO_PAUSE, Pause
from schema.budgets import MOST_A_SECOND, Rule, encode_rule
from schema.entry import Entry, Kind, Request, Rules, encode_forget, encode_terms
from schema.errors import BadValue
from tests.proxy.state.test_pause import Counting
from tests.proxy.state.world import CLUSTER, NOBODY, all_pages, reloaded

_THROTTLED = int(ErrorCode.THROTTLED_OP)
_KEEPER = int(Rules.KEEPER | Rules.EXTENDED_TYPES)


def rule(path: str, writes: int = 0, size: int = 0) -> Request:
    return Request(Kind.BUDGET, 0, 0, (), encode_rule(path, writes, size))


class World:
    """A machine with a session at each of two proxies, "a" and "b"."""

    def __init__(self) -> None:
        self.machine = new_machine(CLUSTER)
        self.clock = 1_000_000
        for session, proxy in enumerate("ab", 1):
            self.enter(proxy, Request(Kind.OPEN, session, 0, (), encode_terms(4000, bytes(16))))
        assert not any(self.do(*(zk.create(path) for path in ("/x", "/x/y", "/z"))))

    def enter(self, proxy: str, *entered: Request) -> list[int]:
        """Apply an entry; the errors."""
        machine = self.machine
        number = machine.applied.get(proxy, 0) + 1
        entry = Entry(self.clock, _KEEPER, 0, 0, [*entered])
        return [outcome.err for outcome in machine.apply(proxy, number, entry)]

    def do(self, *asked: zk.Request[object], proxy: str = "a") -> list[int]:
        """Apply a client's requests as one entry; the errors."""
        session = "ab".index(proxy) + 1
        found = [Request(Kind.CLIENT, session, each.opcode, NOBODY, each.body) for each in asked]
        return self.enter(proxy, *found)

    def refused(self, count: int, *, proxy: str = "a", path: str = "/x") -> int:
        """How many of so many writes are refused."""
        errors = self.do(*[zk.set_data(path, b"12345")] * count, proxy=proxy)
        assert set(errors) <= {0, _THROTTLED}
        assert errors == sorted(errors, reverse=True), "what comes first is applied"
        return sum(map(bool, errors))


@pytest.fixture
def world() -> World:
    return World()


def test_bytes_count_and_a_large_request_is_paid_for_afterwards(world: World) -> None:
    world.enter("a", rule("/x", 0, 1000))
    assert world.do(zk.set_data("/x", bytes(5000))) == [0]
    for _ in range(3):
        world.clock += 1000
        assert world.do(zk.set_data("/x", b"")) == [_THROTTLED]
    world.clock += 1001
    assert world.do(zk.set_data("/x", b"")) == [0]


def charged(budgets: Budgets, effect: Effect, fields: object, pause: Pause = NO_PAUSE) -> str | None:
    """Charge a request that succeeds; the path of a budget that refuses it."""
    costs = budgets.costs_of(effect, fields, pause)
    spent = budgets.spent(costs)
    if spent is None:
        budgets.take(costs)
    return spent


def _parts(paths: Iterable[str]) -> list[tuple[WriteOperation, tuple[str, bytes, int]]]:
    return [(PLAIN.writes[OpCode.SET_DATA], (path, b"12", -1)) for path in paths]


def _nested(depth: int) -> Budgets:
    budgets = Budgets()
    for steps in range(1, depth + 1):
        budgets.set(Rule("/a" * steps, 1000, 0), "a", 1000)
    return budgets


def test_a_multi_below_many_budgets_is_charged_with_pauses() -> None:
    budgets, pause = _nested(200), Counting(512)
    parts = _parts(["/a" * 200 + f"/{number}" for number in range(100)])
    assert charged(budgets, Effect.OF_PARTS, parts, pause) is None
    assert pause.calls >= 100 * 200 // (2 * 512)


def test_a_path_is_looked_up_once_for_all_parts_of_a_multi() -> None:
    budgets = _nested(3)
    with mock.patch.object(Budgets, "upwards", autospec=True, side_effect=Budgets.upwards) as upwards:
        assert charged(budgets, Effect.OF_PARTS, _parts(["/a/b", "/a/a/b"] * 100)) is None
        assert upwards.call_count == 2
        assert budgets.refuses("a", 1000, Effect.OF_PARTS, _parts(["/a/b", "/a/a/b"] * 100)) is None
        assert upwards.call_count == 4
    assert budgets.left() == {"/a": (800_000, 0), "/a/a": (900_000, 0), "/a/a/a": (1000_000, 0)}


def test_a_proxy_asks_until_it_finds_a_spent_budget() -> None:
    budgets = Budgets()
    budgets.set(Rule("/x", 1, 0), "a", 1000)
    assert charged(budgets, Effect.OF_PARTS, _parts(["/x"])) is None
    with mock.patch.object(Budgets, "upwards", autospec=True, side_effect=Budgets.upwards) as upwards:
        many = _parts(["/y", "/x", *(f"/x/{number}" for number in range(100))])
        assert budgets.refuses("a", 1000, Effect.OF_PARTS, many) == "/x"
        assert upwards.call_count == 2


def test_ends_of_sessions_cost_nothing(world: World) -> None:
    assert world.do(zk.create("/x/e", mode=1), proxy="b") == [0]
    world.enter("a", rule("/", 1))
    assert world.refused(2) == 1
    close = Request(Kind.CLIENT, 2, -11, NOBODY, b"")
    assert world.enter("b", close) == [0]
    assert "/x/e" not in world.machine.tree.nodes


def test_a_sequential_node_is_not_the_path_before_its_number(world: World) -> None:
    world.enter("a", rule("/x/s", 1))
    assert world.do(*[zk.create("/x/s", mode=2)] * 3) == [0, 0, 0]
    assert world.do(zk.create("/x/s"), zk.create("/x/s/1")) == [0, _THROTTLED]


def test_no_path_that_a_client_sends_takes_long() -> None:
    budgets = Budgets()
    budgets.set(Rule("/a/b", 1, 0), "a", 0)
    for path in ("/" * 1_000_000, "/a" * 500_000, "a" * 1_000_000, "", "/a/bc/d", "/a"):
        assert list(budgets.under(path)) == []
    assert [budget.path for budget in budgets.under("/a/b" + "/c" * 500_000)] == ["/a/b"]


def test_rules_are_replaced_and_removed(world: World) -> None:
    world.enter("a", rule("/x", 1), rule("/z", 0, 5))
    assert world.refused(2) == 1
    world.enter("b", rule("/x", 2))
    assert world.refused(3) == 1, "a budget that was set again is full"
    assert world.machine.budgets.rules == [Rule("/x", 2, 0), Rule("/z", 0, 5)]
    assert world.enter("b", rule("/x"), rule("/missing")) == [0, 0]
    assert world.refused(9) == 0
    world.enter("b", rule("/z"))
    assert b"budgets" not in all_pages(world.machine)[2], "nothing is left of them"
    assert world.machine.budgets.hash() == 0


def test_what_no_budget_can_be() -> None:
    world = World()
    wrong = (rule("x", 1), rule("/x/", 1), rule("/x", MOST_A_SECOND + 1), rule("/x", 1, MOST_A_SECOND + 1))
    assert world.enter("a", *wrong) == [ErrorCode.BAD_ARGUMENTS] * 4
    many = [rule(f"/{number}", 1) for number in range(MOST_BUDGETS + 1)]
    assert world.enter("a", *many) == [0] * MOST_BUDGETS + [ErrorCode.BAD_ARGUMENTS]
    assert world.enter("a", rule("/0", 2)) == [0], "one that is there can be changed"


# -- time ----------------------------------------------------------------------------------------------------


def _spend(world: World) -> None:
    world.enter("a", rule("/x", 10))
    for proxy in "ab":  # both clocks are known
        world.refused(1, proxy=proxy, path="/z")
    assert world.refused(11) == 1


def test_a_clock_that_is_behind_by_less_than_a_second_changes_nothing(world: World) -> None:
    _spend(world)
    world.clock -= 900
    assert world.refused(1, proxy="b") == 1
    world.clock += 901 + 99
    assert world.refused(2, proxy="b") == 1


def test_a_proxy_asks_before_it_appends() -> None:
    budgets = Budgets()
    budgets.set(Rule("/x", 10, 0), "a", 1000)
    fields = ("/x", b"", -1)

    def asked(who: str, at: int) -> str | None:
        return budgets.refuses(who, at, Effect.SETS_DATA, fields)

    assert asked("a", 1000) is None
    assert all(charged(budgets, Effect.SETS_DATA, fields) is None for _ in range(10))
    before = budgets.value
    assert asked("a", 1000) == "/x"
    assert asked("a", 1100) is None
    assert asked("new", 1000) is None, "its entry makes its clock known"
    budgets.enter("b", 5000)
    assert asked("b", 5000) == "/x"
    assert asked("b", 4000) == "/x", "a clock that is a second behind is not set"
    assert asked("b", 3999) is None, "its entry sets its clock"
    budgets.forget("b")
    assert budgets.value == before


def test_a_clock_is_set_when_it_is_behind_by_more_than_a_second() -> None:
    budgets = Budgets()
    budgets.set(Rule("/x", 10, 0), "a", 1000)
    for clock, offset in ((5000, -4000), (4000, -4000), (3999, -2999)):
        budgets.enter("b", clock)
        assert budgets.value.offsets["b"] == offset


def test_a_proxy_whose_clock_is_behind_refuses_nothing_that_would_be_applied() -> None:
    budgets = Budgets()
    budgets.set(Rule("/x", 10, 0), "a", 1000)
    budgets.enter("b", 5000)
    fields = ("/x", b"", -1)
    assert all(charged(budgets, Effect.SETS_DATA, fields) is None for _ in range(10))
    budgets.enter("a", 1100)  # time for one more write
    assert budgets.refuses("b", 5000, Effect.SETS_DATA, fields) is None
    assert charged(budgets, Effect.SETS_DATA, fields) is None


def test_an_incarnation_that_is_forgotten_leaves_nothing(world: World) -> None:
    _spend(world)
    assert set(world.machine.budgets.value.offsets) == {"a", "b"}
    world.enter("a", Request(Kind.FORGET, 0, 0, (), encode_forget("b")))
    assert set(world.machine.budgets.value.offsets) == {"a"}


# -- the same everywhere -------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(-1500, 2500),
        st.sampled_from(["/x", "/x/y", "/z", "/x/s-"]),
        st.integers(0, 30),
        st.sampled_from([None, None, None, ("/x", 3, 0), ("/x/y", 0, 50), ("/", 5, 40), ("/x", 0, 0)]),
        st.booleans(),
    ),
    max_size=40,
)


@given(_STEPS)
def test_a_machine_that_was_loaded_decides_as_one_that_ran(steps: list[tuple[Any, ...]]) -> None:
    ran, loaded = World(), World()
    for proxy, passed, path, size, change, reload in steps:
        for world in (ran, loaded):
            world.clock += passed
        if reload:
            loaded.machine = reloaded(loaded.machine)
        parts = [zk.set_data("/z", b"1"), zk.create("/x/s-", bytes(size), mode=2)]
        asked = [zk.set_data(path, bytes(size)), zk.multi(parts)] * 2
        assert ran.do(*asked, proxy=proxy) == loaded.do(*asked, proxy=proxy)
        if change is not None:
            for world in (ran, loaded):
                world.enter("a", rule(*change))
        assert all_pages(ran.machine) == all_pages(loaded.machine)
        assert ran.machine.digest.settle(ran.machine.tree.nodes) == loaded.machine.compute_digest()


def test_a_server_with_another_bucket_is_found_by_its_digest(world: World) -> None:
    """A planted defect: this server takes the time of its own host."""
    other = World()
    for each in (world, other):
        each.enter("a", rule("/x", 10))
    other.machine.budgets.enter("a", world.clock + 1)
    while not world.machine.checkpoints:
        for each in (world, other):
            each.refused(1)
    assert world.machine.entries == CHECKPOINT_EVERY
    wrong: Machine = other.machine
    entries, digest = world.machine.last_checkpoint
    found = wrong.begin("a", wrong.applied["a"] + 1, 0, 0, entries, digest)
    assert isinstance(found, Disagreement)


def test_pages_with_other_budgets_have_another_digest(world: World) -> None:
    world.enter("a", rule("/x", 10))
    nodes, sessions, state, digest = all_pages(world.machine)
    world.refused(1, path="/x")
    assert load(nodes, sessions, state, digest).budgets.value != world.machine.budgets.value
    with pytest.raises(BadValue, match="have the digest"):
        load(nodes, sessions, all_pages(world.machine)[2], digest)
