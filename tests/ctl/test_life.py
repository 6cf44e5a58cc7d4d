"""What the entries of all proxies say of one session."""

from collections.abc import Sequence

import pytest

from cli.output import CommandFailed
from codec import client as zk
from ctl.life import show
from proxy.state.capture import new_machine
from proxy.state.sessions import Session
from schema.entry import KILLED, Kind, Request, Written, encode_carry_over, encode_close, encode_terms
from schema.record import Home
from tests.proxy.log.proxies import PASSWORD
from tests.proxy.log.trees import asked, created, opened, value_of
from tests.table import one_by_one

_OPENED = "opened, timeout 30000 ms"


def _attached(session_id: int, password: bytes = PASSWORD) -> Request:
    return Request(Kind.ATTACH, session_id, 0, (), encode_terms(5000, password))


def _closed(session_id: int, reason: str, holder: str) -> Request:
    return Request(Kind.CLOSE, session_id, 0, (), encode_close(reason, holder))


def _carried(old: str) -> Request:
    return Request(Kind.CARRY_OVER, 0, 0, (), encode_carry_over(old))


def _entries(*requests: tuple[str, Request]) -> list[Written]:
    return [
        Written(10 + number, sender, number, value_of([request]))
        for number, (sender, request) in enumerate(requests)
    ]


@one_by_one(
    ("requests", "events"),
    [
        ([("a", opened(1)), ("a", asked(1, zk.close()))], [_OPENED, "ended by its client"]),
        (
            [("a", opened(1)), ("b", _attached(1)), ("b", _closed(1, "its client was silent", "b"))],
            [
                _OPENED,
                "moved from a: its client has connected again",
                "ended: its client was silent, since 2023-11-14T22:13:15.000+00:00 about",
            ],
        ),
        (
            [("a", opened(1)), ("a", _attached(1)), ("c", _closed(1, f"{KILLED}root", ""))],
            [_OPENED, "continued: its client has connected again", "ended: killed by root"],
        ),
        (
            [("a", opened(1)), ("b", _carried("a")), ("c", _closed(1, "proxy a is gone", "a"))],
            [_OPENED, "carried over from a: the same proxy, as another incarnation or process"],
        ),
        (
            [
                ("a", opened(1)),
                ("b", _attached(1, b"x" * 16)),
                ("a", _closed(1, "x", "a")),
                ("b", _attached(1)),
            ],
            [_OPENED, "refused: a wrong password", "ended: x", "refused: it had ended"],
        ),
        ([("a", opened(2)), ("a", _attached(1))], ["continued: its client has connected again"]),
        (  # a former holder does not end it, and it ends once
            [
                ("a", opened(1)),
                ("b", _attached(1)),
                ("a", asked(1, zk.close())),
                ("a", _attached(1)),
                ("a", asked(1, zk.close())),
                ("a", asked(1, zk.close())),
                ("c", _closed(1, "proxy a is gone", "")),
            ],
            [
                _OPENED,
                "moved from a: its client has connected again",
                "moved from b: its client has connected again",
                "ended by its client",
            ],
        ),
    ],
)
def test_the_events_of_a_life(requests: Sequence[tuple[str, Request]], events: list[str]) -> None:
    shown = show(1, new_machine(1), {"a": Home("db-1")}, {}, _entries(*requests))
    assert [each["event"] for each in shown.data["events"]] == events
    assert shown.data["lives"] is False
    assert {each["host"] for each in shown.data["events"] if each["proxy"] == "a"} <= {"db-1"}
    assert shown.lines[-1] == "session 0x1: it has ended"


def test_an_entry_counts_once_and_one_that_cannot_be_read_is_left_out() -> None:
    """The archive and the log in etcd overlap."""
    entries = _entries(("a", opened(1)), ("a", created(1, "/x")), ("a", created(1, "/y")))
    broken = Written(99, "a", 9, b"nonsense")
    shown = show(1, new_machine(1), {}, {}, [*entries, broken, *entries])
    assert len(shown.data["events"]) == 1
    assert shown.data["writes"] == 2
    assert any(line.startswith("2 writes of its client, the last at 2023-11-14") for line in shown.lines)


def test_a_session_that_lives() -> None:
    machine = new_machine(1)
    machine.sessions[1] = Session(1, 5000, b"", "a")
    homes, clients = {"a": Home("db-1")}, {1: "10.0.0.9:5"}
    shown = show(1, machine, homes, clients, _entries(("a", opened(2))))
    assert "it was opened before" in shown.lines[0]
    assert shown.lines[-1] == (
        "session 0x1: it lives, held by a on db-1, client 10.0.0.9:5, timeout 5000 ms, 0 ephemerals"
    )
    assert (shown.data["holder"], shown.data["client"]) == ("a", "10.0.0.9:5")
    alone = show(1, machine, {}, {}, [])
    assert "held by a proxy that is gone, client unknown or not connected" in alone.lines[-1]


def test_a_session_of_which_nothing_is_known() -> None:
    with pytest.raises(CommandFailed, match=r"nothing is known of session 0x7: .* --archive URL"):
        show(7, new_machine(1), {}, {}, _entries(("a", opened(2))))
