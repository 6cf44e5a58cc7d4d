"""How long a login lasts, how many there are, and how often passwords may be tried."""

import pytest

from console.people.logins import Login, Logins
from console.people.throttle import Throttle
from proxy.state.auth.scheme import Identity


def test_a_login_ends_when_it_is_idle_or_old() -> None:
    logins = Logins()
    idle, busy = logins.begin("amy", 0.0), logins.begin("ben", 0.0)
    for now in range(0, 12 * 3600 + 1, 1800):
        assert logins.find(busy.token, now) is busy
    assert logins.find(busy.token, 12 * 3600 + 2.0) is None
    assert logins.find(idle.token, 12 * 3600 + 2.0) is None
    assert logins.find(None, 0.0) is None
    assert logins.find("", 0.0) is None


def test_the_login_that_is_idle_for_longest_gives_way() -> None:
    logins = Logins()
    made = [logins.begin("amy", float(number)) for number in range(200)]
    logins.find(made[0].token, 300.0)
    logins.begin("ben", 301.0)
    assert logins.find(made[0].token, 302.0) is made[0]
    assert logins.find(made[1].token, 302.0) is None


def test_who_takes_all_places_pushes_out_no_login_of_another_address() -> None:
    logins = Logins()
    amy = logins.begin("amy", 0.0, "a")
    for number in range(1000):
        logins.begin("", 1.0 + number / 1000, "b")
    assert logins.find(amy.token, 3.0) is amy


def test_identities_are_named_without_their_proofs() -> None:
    login = Logins().begin("amy", 0.0)
    login.add((Identity("super", ""), Identity("digest", "joe:aGFzaA==")))
    login.add((Identity("super", ""),))
    assert login.names == ["super", "digest:joe"]
    with pytest.raises(ValueError, match="20 identities"):
        login.add(tuple(Identity("digest", f"{number}:x") for number in range(20)))


def test_each_end_is_told() -> None:
    ended: list[Login] = []
    logins = Logins(ended.append)
    made = [logins.begin("amy", float(number)) for number in range(200)]
    logins.end(made[5])
    logins.begin("ben", 200.0)
    logins.begin("ben", 200.0)  # there are too many: the first gives way
    assert ended == [made[5], made[0]]
    logins.find(made[1].token, 12 * 3600 + 2.0)
    assert ended[2:] == [made[1]]


def test_an_address_may_try_five_passwords_a_minute() -> None:
    throttle = Throttle()
    for now in range(5):
        assert throttle.wait("a", "amy", now) == 0
        throttle.tried("a", "amy", now)
    assert throttle.wait("a", "amy", 5.0) == 55
    assert throttle.wait("a", "bob", 5.0) == 55
    assert throttle.wait("b", "amy", 5.0) == 0
    assert throttle.wait("a", "amy", 60.0) == 0


def test_the_right_password_forgives_what_was_tried_from_there_for_its_user() -> None:
    for user, wait in (("amy", 0), ("bob", 60)):
        throttle = Throttle()
        for _ in range(4):
            throttle.tried("a", user, 0.0)
        throttle.tried("a", "amy", 0.0)
        throttle.succeeded("a", "amy")
        assert throttle.wait("a", "joe", 0.0) == 0
        throttle.tried("a", user, 0.0)
        assert throttle.wait("a", "joe", 0.0) == wait


def test_who_guesses_one_users_password_from_many_addresses_locks_out_no_other() -> None:
    throttle = Throttle()
    for number in range(20):
        throttle.tried(str(number), "amy", 1.0)
    assert throttle.wait("another", "amy", 2.0) == 59
    assert throttle.wait("another", "bob", 2.0) == 0
    assert throttle.wait("another", "amy", 61.0) == 0


def test_many_addresses_together_have_a_limit_too() -> None:
    throttle = Throttle()
    for number in range(120):
        throttle.tried(str(number), str(number), 1.0)
    assert throttle.wait("another", "amy", 2.0) == 59
    assert throttle.wait("another", "amy", 61.0) == 0


@pytest.mark.parametrize("source", ["10.0.0.1", "a browser's cookie"])
def test_where_a_user_has_logged_in_others_do_not_lock_the_user_out(source: str) -> None:
    throttle = Throttle()
    throttle.succeeded(source, "amy")
    for number in range(200):
        throttle.tried(str(number), "amy", 1.0)
    for _ in range(5):
        throttle.tried("10.0.0.1", "bob", 1.0)  # from the same address, maybe of many hosts
        assert throttle.wait(source, "amy", 1.0) == 0
    for _ in range(5):
        throttle.tried(source, "amy", 1.0)
    assert throttle.wait(source, "amy", 2.0) == 59, "guessing stays slow there as well"


def test_no_more_than_a_thousand_places_are_known() -> None:
    throttle = Throttle()
    for number in range(1001):
        throttle.succeeded(str(number), "amy")
    assert not throttle.knows("0", "amy")
    assert throttle.knows("1", "amy")
    assert throttle.knows("1000", "amy")
