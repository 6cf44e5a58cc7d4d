"""Warnings of an outage: one now, then one in half a minute."""

import logging

import pytest

from lab.fakes.clock import FakeClock
from proxy.support.throttled_log import _VARIABLE, LogsByPath, ThrottledLog

LOG = logging.getLogger("tests.throttled_log")


def test_the_same_warning_appears_every_30_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG.name)
    clock = FakeClock()
    throttled_log = ThrottledLog(LOG, clock)
    for clock.now in (0.0, 0.2, 29.9, 30.0, 31.0):
        throttled_log.warn("etcd is away for %s s", clock.now)
    assert [(record.levelname, record.args) for record in caplog.records] == [
        ("WARNING", (0.0,)),
        ("DEBUG", (0.2,)),
        ("DEBUG", (29.9,)),
        ("WARNING", (30.0,)),
        ("DEBUG", (31.0,)),
    ]


def test_an_error_has_its_level(caplog: pytest.LogCaptureFixture) -> None:
    throttled_log = ThrottledLog(LOG)
    throttled_log.error("etcd is %s", "another one")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_another_reason_appears_at_once_but_not_too_many(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    throttled_log = ThrottledLog(LOG, clock)

    def seen(*reasons: str) -> list[str]:
        caplog.clear()
        for reason in reasons:
            throttled_log.warn("the watch broke: %s", reason)
        return [str(record.args[0]) for record in caplog.records if isinstance(record.args, tuple)]

    first, other = "10.0.0.7:2379: closed by the peer", "10.0.0.7:2379: its certificate has expired"
    assert seen(first, other, first, "10.0.0.8:2380: closed by the peer") == [first, other]
    assert seen(*(f"a client sends {word}" for word in ("one", "two", "three", "four"))) == [
        "a client sends one",
        "a client sends two",
    ]
    clock.now = 31.0
    assert seen(other, "a client sends three", other) == [other, "a client sends three"]


def test_a_message_with_a_long_word_is_as_any_other(caplog: pytest.LogCaptureFixture) -> None:
    """To look for a digit behind each of its letters would take minutes: a client chooses paths."""
    throttled_log = ThrottledLog(LOG)
    for number in (1, 2):
        throttled_log.warn("%d bytes at /%s", number, "a" * (1 << 20))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert max(map(len, throttled_log._warned)) < 2000


@pytest.mark.parametrize("changes", ["10.0.0.7:2379", "a1b2", "7f", "_9_", "é5é", "0x1f"])
def test_words_with_digits_make_no_kind(changes: str, caplog: pytest.LogCaptureFixture) -> None:
    throttled_log = ThrottledLog(LOG)
    for what in ("10.1.1.1:1" if ":" in changes else "0", changes):
        throttled_log.warn("lost %s, again", what)
    assert len(throttled_log._warned) == 1


@pytest.mark.parametrize("letters", [20, 10_000])
def test_no_word_is_looked_at_twice(letters: int) -> None:
    assert _VARIABLE.sub("#", f"of {'a' * letters} {'b' * letters}7c") == f"of {'a' * letters} #"


def test_paths_have_logs_of_their_own_within_bounds(caplog: pytest.LogCaptureFixture) -> None:
    by_path = LogsByPath(lambda: ThrottledLog(LOG))
    for number in range(1000):
        by_path.warn(f"/{number}", "quota exceeded at %s: %s", "count=2 limit=1")
    warned = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 256 + 1, "all others have one log"
    assert len(by_path._by_path) == 256


@pytest.mark.parametrize("length", [1024, 1025, 1_000_000])
def test_a_long_path_of_a_client_does_not_fill_the_log(caplog: pytest.LogCaptureFixture, length: int) -> None:
    by_path = LogsByPath(lambda: ThrottledLog(LOG))
    by_path.warn("/" + "x" * (length - 1), "quota exceeded at %s: %s", "count=2 limit=1")
    (record,) = caplog.records
    shown = "/" + "x" * 1023 + "..." * (length > 1024)
    assert record.getMessage() == f"quota exceeded at {shown}: count=2 limit=1"
