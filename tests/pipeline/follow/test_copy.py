"""A copy that shares the source's znodes is the one that its entries make."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.follow.changed import Changed
from pipeline.follow.copy import Copy, kept_of, new_of
from pipeline.follow.copying import note
from proxy.state.capture import load, new_machine, pages
from proxy.state.machine import Machine
from proxy.state.recording import keep_changes
from schema.budgets import encode_rule
from schema.entry import Entry, Kind, Request, encode_level, encode_terms
from schema.followed import encode_followed
from tests.pipeline.follow.histories import node_pages
from tests.proxy.state.test_machine_histories import _OPENED, entries
from tests.proxy.state.world import RULES, Said, request_of


def replayed(machine: Machine, requests: list[Request], number: int) -> None:
    """Apply an entry of the copy's log, as a proxy does."""
    outcomes = machine.apply("f", number, Entry(5, 0, 0, 0, requests))
    assert [outcome.err for outcome in outcomes] == [0] * len(requests)


def reloaded(machine: Machine) -> Machine:
    """What a proxy that knows the same levels loads from a snapshot."""
    made = pages(machine)
    return load(made.node_pages, made.session_pages, made.state, made.digest, machine.known_levels)


class Followed:
    """A source, its copy, and what a proxy makes of the copy's log."""

    def __init__(self) -> None:
        self.source = new_machine(1)
        self.copy = Copy(self.source, 2, new_of(self.source))
        self.proxy = new_machine(2)
        self.recorded = keep_changes(self.source)
        self.changed = Changed(self.source)
        self.attached: set[int] = set()
        self._number = 0

    def enter(self, holder: str, clock: int, requests: list[Request]) -> None:
        """One entry of the source."""
        machine = self.source
        machine.begin(holder, machine.applied.get(holder, 0) + 1, clock, RULES)
        for request in requests:
            machine.execute(request)
            note(self.changed, machine, self.recorded, self.copy.sessions, self.attached)
        machine.end()

    def hand_on(self) -> None:
        """One entry of the copy, unless nothing has changed; or a snapshot."""
        reused = self.changed.reused
        changes = self.changed.take()
        self.copy.followed(changes)
        requests = self.copy.settings(self.attached)
        self.attached.clear()
        settings = list(requests)
        if changes.zxid != changes.after:
            requests.insert(0, Request(Kind.FOLLOWED, 0, 0, (), encode_followed(changes)))
        if not requests:
            return
        if reused:
            self.proxy = reloaded(self.copy)
            self.attached.update(self.copy.sessions)
            return
        self._number += 1
        self.copy.begin("f", self._number, 5, 0)
        for request in settings:
            self.copy.execute(request)
        self.copy.end()
        replayed(self.proxy, requests, self._number)

    def check(self) -> None:
        """All three agree, and so does what a snapshot holds."""
        assert node_pages(self.source) == node_pages(self.copy) == node_pages(self.proxy)
        assert self.source.zxid == self.copy.zxid == self.proxy.zxid
        machine = reloaded(self.copy)
        digests = {each.digest.settle(each.tree.nodes) for each in (self.copy, self.proxy, machine)}
        assert len(digests) == 1
        for each in (self.copy, self.proxy, machine):
            assert {s.id: s.timeout_ms for s in each.sessions.values()} == {
                s.id: s.timeout_ms for s in self.source.sessions.values()
            }
            assert (each.level, each.entries) == (self.source.level, self._number)
            assert each.budgets.rules == self.source.budgets.rules
        assert machine.budgets.value == self.copy.budgets.value
        assert self.proxy.compute_digest() in digests


@given(entries, st.integers(1, 9))
def test_a_copy_is_what_its_log_makes(history: list[tuple[str, list[Said]]], together: int) -> None:
    world = Followed()
    for clock, (holder, asked) in enumerate([_OPENED, *history]):
        world.enter(holder, clock, [request_of(each, 4000 + clock) for each in asked])
        if clock % together == 0:
            world.hand_on()
    world.hand_on()
    world.hand_on()  # timeouts, after a snapshot
    world.check()


def test_what_is_no_znode_comes_along() -> None:
    world = Followed()
    for machine in (world.source, world.copy, world.proxy):
        machine.known_levels = frozenset((1, 2))  # as of a release that knows another level
    world.enter("a", 1, [Request(Kind.OPEN, 7, 0, (), encode_terms(4000, bytes(16)))])
    world.hand_on()
    world.enter("a", 2, [Request(Kind.LEVEL, 0, 0, (), encode_level(2))])
    rules = (("/x", 5, 0), ("/y", 0, 7))
    world.enter("b", 3, [Request(Kind.BUDGET, 0, 0, (), encode_rule(*rule)) for rule in rules])
    world.enter("b", 3, [Request(Kind.ATTACH, 7, 0, (), encode_terms(6000, bytes(16)))])
    world.hand_on()
    world.check()
    world.enter("b", 4, [Request(Kind.BUDGET, 0, 0, (), encode_rule("/x", 0, 0))])
    world.enter("b", 5, [Request(Kind.BUDGET, 0, 0, (), encode_rule("/y", 9, 9))])
    world.hand_on()
    world.check()
    assert world.proxy.budgets.rules == [("/y", 9, 9)]
    assert world.proxy.sessions[7].timeout_ms == 6000


def test_a_copy_goes_on_with_what_it_has() -> None:
    world = Followed()
    world.enter("a", 1, [Request(Kind.OPEN, 7, 0, (), encode_terms(4000, bytes(16)))])
    world.hand_on()
    world.copy = Copy(world.source, 2, kept_of(world.proxy))
    world.enter("a", 2, [Request(Kind.OPEN, 8, 0, (), encode_terms(4000, bytes(16)))])
    world.hand_on()
    world.check()
