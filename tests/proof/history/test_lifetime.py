"""How early a session may end where the servers' clocks run faster than the records'."""

import pytest

from proof.history import Exists, History, Reply, check
from proof.history.records import NO_NODE


@pytest.mark.parametrize(("drift", "rules"), [(0.0, ["lifetime"]), (1e-3, []), (5e-4, ["lifetime"])])
def test_a_fast_clock_ends_a_session_a_little_early(drift: float, rules: list[str]) -> None:
    history = History()
    history.opened(0, 1, 3_600_000)
    history.reply(2, history.invoke(1, 1, Exists("/x")), Reply(NO_NODE, 1))
    history.expired(int(3_597.5e9), 1)
    assert [violation.rule for violation in check(history, drift=drift)] == rules
