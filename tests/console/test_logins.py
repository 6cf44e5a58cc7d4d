"""How long a login lasts, and how many there are."""

import pytest

from console.logins import Login, Logins
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
