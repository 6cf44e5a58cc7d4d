"""How often passwords may be tried."""

from console.throttle import Throttle


def test_five_tries_a_minute_from_an_address() -> None:
    throttle = Throttle()
    for now in range(5):
        assert throttle.wait("a", now) == 0
        throttle.tried("a", "amy", now)
    assert throttle.wait("a", 5.0) == 55
    assert throttle.wait("b", 5.0) == 0
    assert throttle.wait("a", 60.0) == 0


def test_the_right_password_forgives_what_was_tried_from_there_for_its_user() -> None:
    for user, wait in (("amy", 0), ("bob", 60)):
        throttle = Throttle()
        for _ in range(4):
            throttle.tried("a", user, 0.0)
        throttle.tried("a", "amy", 0.0)
        throttle.succeeded("a", "amy")
        assert throttle.wait("a", 0.0) == 0
        throttle.tried("a", user, 0.0)
        assert throttle.wait("a", 0.0) == wait


def test_many_addresses_together_have_a_limit_too() -> None:
    throttle = Throttle()
    for number in range(60):
        throttle.tried(str(number), "amy", 1.0)
    assert throttle.wait("another", 2.0) == 59
    assert throttle.wait("another", 61.0) == 0
