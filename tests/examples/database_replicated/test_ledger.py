"""Each invariant is broken on purpose, and found: notes of a good run, with one thing wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from examples.database_replicated import ddl
from examples.database_replicated.ddl import Query
from examples.database_replicated.ledger import End, LastEntry, LastReplica, Ledger
from examples.invariants import Violation

_TEXTS = {
    number: ddl.text_of(Query(f"q-{number}", kind, table))
    for number, kind, table in (
        (2, "CREATE", "a"),
        (3, "CREATE", "b"),
        (4, "ALTER", "a"),
        (6, "ALTER", "b"),
        (7, "ALTER", "a"),
    )
}
_NAMES = ("r00", "r01")


def _tables(last: int) -> dict[str, str]:
    tables: dict[str, str] = {}
    for number, text in _TEXTS.items():
        if number <= last:
            tables = ddl.changed(tables, ddl.changes(tables, ddl.query_of(text)) or {})
    return tables


def _digest(last: int) -> str:
    return ddl.digest(_tables(last))


class Good:
    """A run in which all is well. Entry 1 joins, 5 is rolled back, r01 takes a snapshot at 6."""

    def __init__(self) -> None:
        self.ledger = Ledger(_NAMES)
        self.ledger.restart()

    def propose(self, number: int) -> None:
        """One proposal, committed and applied by the initiator at once."""
        ledger, at = self.ledger, float(number)
        text = b"" if number == 1 else _TEXTS.get(number, b"q-5 DROP z")
        ledger.locked("r00", number, text, at, 10 * number)
        ledger.released("r00", 10 * number, 10 * number + 5)
        if number == 5:
            ledger.rolled_back(5)
        elif number != 1:
            ledger.acknowledged(number, at + 0.5)
            ledger.applied("r00", number, text, _digest(number), at + 0.6)

    def follow(self, number: int) -> None:
        """The other replica."""
        if number in (1, 5):
            self.ledger.note("entries skipped")
        elif number == 6:
            self.ledger.recovered("r01", 6, _digest(6))
        else:
            self.ledger.applied("r01", number, _TEXTS[number], _digest(number), number + 0.7)

    def end(self) -> End:
        """The tree."""
        finished = frozenset(_NAMES)
        children = frozenset({"committed", "active", "finished"})
        log = {
            number: LastEntry(text, children, finished if number != 6 else finished - {"r01"}, frozenset())
            for number, text in _TEXTS.items()
            if number > 2
        }
        replicas = {name: LastReplica(7, _digest(7), _tables(7)) for name in _NAMES}
        return End(_tables(7), log, replicas, 7, 3, False, 0)

    def run(self) -> None:
        """All of it. Raises Violation."""
        for number in range(1, 8):
            self.propose(number)
            self.follow(number)
        self.ledger.cleaning(2, 7, 3, True)
        self.ledger.judge(self.end())


def test_a_good_run() -> None:
    run = Good()
    run.run()
    assert run.ledger.last == 7
    assert run.ledger.latencies == {500_000: 5}
    assert run.ledger.spread.total() == 4
    assert run.ledger.stop() == {"entries rolled back": 1, "entries skipped": 2, "recoveries": 1}
    run.ledger.note("nothing")
    assert run.ledger.events == {"nothing": 1}


def test_a_run_in_which_nothing_is_proposed() -> None:
    replicas = {name: LastReplica(1, ddl.digest({}), {}) for name in _NAMES}
    Ledger(_NAMES).judge(End({}, {}, replicas, 1, 3, False, 0))


Calls = Mapping[int, Sequence[tuple[Any, ...]]]
"""What happens at a number instead of the good: calls of the ledger, by name, with their arguments."""


def _proposals(instead: Calls) -> type[Good]:
    class Broken(Good):
        def propose(self, number: int) -> None:
            if number not in instead:
                super().propose(number)
            for name, *arguments in instead.get(number, ()):
                getattr(self.ledger, name)(*arguments)

    return Broken


def _followers(instead: Calls) -> type[Good]:
    class Broken(Good):
        def follow(self, number: int) -> None:
            if number not in instead:
                super().follow(number)
            for name, *arguments in instead.get(number, ()):
                getattr(self.ledger, name)(*arguments)

    return Broken


def _end(**changed: Any) -> type[Good]:
    class Broken(Good):
        def end(self) -> End:
            return super().end()._replace(**changed)

    return Broken


def _entry(number: int, **changed: Any) -> type[Good]:
    log = Good().end().log
    return _end(log={**log, number: log[number]._replace(**changed)})


def _replica(**changed: Any) -> type[Good]:
    replicas = Good().end().replicas
    return _end(replicas={**replicas, "r01": replicas["r01"]._replace(**changed)})


def _applied(number: int, text: bytes | None = None, last: int | None = None) -> tuple[Any, ...]:
    """r01 applies an entry, with another text or the tables of another entry."""
    digest = _digest(number if last is None else last)
    return ("applied", "r01", number, _TEXTS.get(number) if text is None else text, digest, number + 0.7)


_QUERY = b"q-9 ALTER a"
_DROP = b"q-5 DROP z"
_LOG = Good().end().log
_COMMITTED = LastEntry(_DROP, frozenset({"committed"}), frozenset(), frozenset())
_BROKEN: dict[str, tuple[str, type[Good]]] = {
    "a number given twice": ("numbers", _proposals({4: [("locked", "r01", 3, _QUERY, 4.0, 40)]})),
    "numbers that go back": (
        "numbers",
        _proposals({5: [("locked", "r00", 5, _DROP, 5.0, 40), ("rolled_back", 5)]}),
    ),
    "a number left out": ("numbers", _proposals({5: []})),
    "an entry of nobody": ("numbers", _end(log={**_LOG, 8: _LOG[7]})),
    "the lock held twice": ("lock", _followers({5: [("released", "r01", 54, 59)]})),
    "the lock of another is given back": ("lock", _followers({5: [("released", "r01", 46, 51)]})),
    "the lock left behind": ("lock", _end(locked=True)),
    "a counter left behind": ("lock", _end(counters=1)),
    "an entry lost to a replica": ("lost", _followers({7: []})),
    "an entry applied twice": ("doubled", _followers({7: [_applied(7), _applied(7)]})),
    "an older entry applied twice": ("doubled", _followers({7: [_applied(7), _applied(4)]})),
    "an entry of a snapshot applied": ("doubled", _followers({7: [_applied(6)]})),
    "a proposal appended twice": ("doubled", _proposals({5: [("locked", "r00", 5, _TEXTS[4], 5.0, 50)]})),
    "entries applied in another order": ("order", _followers({3: [], 4: [_applied(4), _applied(3)]})),
    "a snapshot from before": ("order", _followers({6: [("recovered", "r01", 3, _digest(3))]})),
    "a later proposal with a lower number": (
        "order",
        _proposals({4: [("locked", "r00", 4, _TEXTS[4], 99.0, 40), ("acknowledged", 4, 99.5)]}),
    ),
    "an entry that cannot be applied": (
        "order",
        _proposals({5: [("locked", "r00", 5, _DROP, 5.0, 50), ("acknowledged", 5, 5.5)]}),
    ),
    "another text": ("agreement", _followers({4: [_applied(4, _QUERY)]})),
    "a text that was not proposed": ("agreement", _followers({4: [_applied(9, _QUERY, 4)]})),
    "other tables": ("agreement", _followers({4: [_applied(4, last=3)]})),
    "wrong tables everywhere": (
        "agreement",
        _proposals(
            {
                6: [
                    ("locked", "r00", 6, _TEXTS[6], 6.0, 60),
                    ("acknowledged", 6, 6.5),
                    ("applied", "r00", 6, _TEXTS[6], _digest(4), 6.6),
                ]
            }
        ),
    ),
    "another text at the end": ("agreement", _entry(4, text=_QUERY)),
    "a rolled back entry applied": ("rollback", _followers({5: [_applied(5, _DROP, 4)]})),
    "a rolled back entry acknowledged": ("rollback", _followers({5: [("acknowledged", 5, 5.7)]})),
    "a rolled back entry committed at the end": ("rollback", _end(log={**_LOG, 5: _COMMITTED})),
    "a wrong snapshot": ("snapshot", _followers({6: [("recovered", "r01", 6, _digest(4))]})),
    "a snapshot as of no entry": ("snapshot", _followers({7: [("recovered", "r01", 8, _digest(7))]})),
    "wrong metadata": ("snapshot", _end(metadata=_tables(6))),
    "an old max_log_ptr": ("pointers", _end(max_log_ptr=6)),
    "a replica that is not there": ("pointers", _end(replicas={})),
    "an old log_ptr": ("pointers", _replica(log_ptr=6)),
    "a wrong digest": ("pointers", _replica(digest="7")),
    "wrong tables at the end": ("pointers", _replica(tables={})),
    "an entry deleted too early": ("cleaning", _followers({7: [_applied(7), ("cleaning", 4, 7, 3, True)]})),
    "an entry that is gone": ("cleaning", _end(log={n: entry for n, entry in _LOG.items() if n != 6})),
    "an entry that is still tried": ("cleaning", _entry(7, children=frozenset({"try", "committed"}))),
    "an entry that is still active": ("cleaning", _entry(7, active=frozenset({"r00"}))),
    "an entry that a replica has not finished": ("cleaning", _entry(7, finished=frozenset({"r00"}))),
}


@pytest.mark.parametrize("what", _BROKEN)
def test_a_broken_invariant_is_found(what: str) -> None:
    invariant, kind = _BROKEN[what]
    with pytest.raises(Violation) as found:
        kind().run()
    assert found.value.invariant == invariant, found.value


def test_a_lost_reply_may_have_spent_a_number() -> None:
    _proposals({5: [("lock_unknown",)]})().run()
