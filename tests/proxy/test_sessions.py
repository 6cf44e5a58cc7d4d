"""Sessions of one proxy: bounds, timeouts and leases, with time as an argument."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.sessions import Session, Sessions, hash_of, lease_ttl


@pytest.mark.parametrize(
    ("wanted", "given_"), [(-5, 4000), (0, 4000), (4000, 4000), (9999, 9999), (40000, 40000), (40001, 40000)]
)
def test_a_timeout_is_kept_between_the_bounds(wanted: int, given_: int) -> None:
    assert Sessions(4000, 40000).negotiate(wanted) == given_


@given(st.integers(1, 10_000_000))
def test_a_lease_outlives_the_timeout_by_more_than_the_pause_between_renewals(timeout_ms: int) -> None:
    session = Session(1, timeout_ms, 0.0)
    seconds = lease_ttl(timeout_ms)
    assert seconds == session.lease_seconds >= 2
    assert not session.wants_keep_alive(seconds / 4 - 0.01)
    assert session.wants_keep_alive(seconds / 4)
    assert timeout_ms / 1000 + seconds / 4 <= seconds + 1e-6
    assert seconds <= max(2, timeout_ms / 1000 * 4 / 3 + 1)


def test_a_session_is_due_when_its_client_was_silent_for_all_its_timeout() -> None:
    session = Session(1, 4000, 100.0)
    assert not session.is_due(103.999)
    assert session.is_due(104.0)
    session.heard = 102.0
    assert not session.is_due(104.0)


def test_the_lease_of_a_session_that_ends_is_left_alone() -> None:
    session = Session(1, 4000, 0.0)
    assert session.wants_keep_alive(100.0)
    session.ending = True
    assert not session.wants_keep_alive(100.0)


def test_sessions_come_and_go() -> None:
    sessions = Sessions(1, 2)
    first, second = Session(1, 1, 0.0), Session(2, 1, 0.0)
    sessions.add(first)
    sessions.add(second)
    assert len(sessions) == 2
    assert sessions.get(1) is first
    for session in sessions:
        assert sessions.drop(session.id) is session  # while they are gone through
    assert sessions.drop(1) is None
    assert sessions.get(1) is None
    assert len(sessions) == 0


def test_what_is_stored_of_a_password_does_not_tell_it() -> None:
    assert hash_of(b"secret") == hash_of(b"secret") != hash_of(b"other")
    assert "secret" not in hash_of(b"secret")
    assert len(hash_of(b"")) == 32
