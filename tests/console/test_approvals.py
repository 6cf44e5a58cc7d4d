"""Who may confirm which deletion, and until when."""

import pytest

from console.people.approvals import Approvals, refusal


def test_only_another_user_confirms_what_was_asked_for() -> None:
    asked = Approvals().ask("/a", 3, b"", "amy", (), None, 0.0)
    for user, path, count, words in (
        ("ben", "/a", 3, ""),
        ("amy", "/a", 3, "another user"),
        ("ben", "/b", 3, "/a, 3"),
        ("ben", "/a", 4, "/a, 3"),
    ):
        refused = refusal(asked, user, path, count)
        assert words in refused
        assert bool(refused) is bool(words)
    alone = Approvals().ask("/a", 3, b"", "", (), None, 0.0)  # without users the path is repeated
    assert refusal(alone, "", "/a", 3) == ""
    assert refusal(alone, "", "/", 3)


def test_a_deletion_waits_for_ten_minutes_and_is_carried_out_once() -> None:
    approvals = Approvals()
    first, second = (approvals.ask("/a", 1, b"", "amy", (), None, when) for when in (0.0, 10.0))
    assert approvals.waiting(599.0) == [first, second]
    assert approvals.waiting(600.0) == [second]
    assert approvals.find(second.number, 600.0) is second
    approvals.take(second.number)
    assert approvals.find(second.number, 600.0) is None


def test_there_is_a_limit() -> None:
    approvals = Approvals()
    for _ in range(20):
        approvals.ask("/a", 1, b"", "amy", (), None, 0.0)
    with pytest.raises(ValueError, match="20 deletions wait"):
        approvals.ask("/a", 1, b"", "amy", (), None, 0.0)
    assert approvals.ask("/a", 1, b"", "amy", (), None, 600.0)


def test_what_a_login_has_asked_for_ends_with_it() -> None:
    approvals = Approvals()
    login, other = object(), object()
    approvals.ask("/a", 1, b"", "amy", (), login, 0.0)
    kept = approvals.ask("/b", 1, b"", "amy", (), other, 0.0)
    approvals.ask("/c", 1, b"", "amy", (), login, 0.0)
    approvals.drop(login)
    assert approvals.waiting(0.0) == [kept]
