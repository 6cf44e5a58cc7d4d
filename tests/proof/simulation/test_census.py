"""What a server keeps is counted, wherever it hangs."""

from collections import deque

from proof.simulation.census import census
from proxy.frontend.sessions import Session, Sessions, Timeouts
from proxy.state.capture import new_machine
from proxy.support.counters import Counters


def _sessions() -> Sessions:
    return Sessions(new_machine(1), Timeouts(4000, 40000), 0.5, Counters(), lambda: 0.0)


def test_containers_are_counted_by_the_attribute_that_holds_them() -> None:
    sessions = _sessions()
    assert census(sessions)["Sessions._came"] == 0
    sessions._came.update(dict.fromkeys(range(7), 1.0))
    sessions._by_id[1] = Session(1, 4000, 0.0)
    counts = census({"a": [sessions, sessions]})
    assert counts["Sessions._came"] == 7
    assert counts["Sessions._by_id"] == 1


def test_what_can_hold_only_so_much_is_not_counted() -> None:
    sessions = _sessions()
    sessions.recent = deque(range(9), maxlen=10)  # type: ignore[attr-defined]
    sessions.all = deque(range(9))  # type: ignore[attr-defined]
    counts = census(sessions)
    assert counts["Sessions.recent"] == 0
    assert counts["Sessions.all"] == 9
