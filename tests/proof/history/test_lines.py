"""A history survives its way through JSON lines, and a bad line is named."""

import pytest

from proof.history import Create, Exists, GetData, History, Multi, Reply, SetWatches, Stat
from proof.history.calls import MalformedHistory
from proof.history.lines import from_lines, to_lines
from tests.proof.history.stories import simulated


def test_a_history_comes_back_as_it_was() -> None:
    history = History(simulated(1))
    assert from_lines(to_lines(history)).records == history.records


def test_every_field_comes_back() -> None:
    history = History()
    history.opened(0, 1, 4000, "writer")
    call = history.invoke(1, 1, Multi((Create("/a", b"\xff\x00", True, True), Create("/b", None))))
    history.reply(2, call, Reply(0, 7, parts=(Reply(path="/a0000000000"), Reply(stat=Stat(1, 2, 3)))))
    history.lost(3, history.invoke(3, 1, SetWatches(5, ("/a",), recursive=("/b",))))
    history.reply(4, history.invoke(4, 1, GetData("/a", True)), Reply(data=None, names=("x",)))
    history.event(5, 1, 3, "/a", 9)
    history.disconnected(6, 1)
    history.attached(7, 1)
    history.expired(8, 1)
    assert from_lines(to_lines(history)).records == history.records


def test_a_line_can_be_read_by_people() -> None:
    history = History()
    history.reply(2, history.invoke(1, 9, Exists("/a")), Reply(-101, 3))
    assert list(to_lines(history)) == [
        '{"type": "invoke", "time": 1, "session": 9, "call": 0, "request": {"op": "exists", "path": "/a"}}',
        '{"type": "fail", "time": 2, "call": 0, "reply": {"error": -101, "zxid": 3}}',
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '{"type": "other"}',
        '{"type": "invoke", "time": 1}',
        '{"type": "invoke", "time": 1, "session": 1, "call": 1, "request": {"op": "other"}}',
        '{"type": "ok", "time": 1, "call": 1, "reply": {"other": 1}}',
        "[" * 200_000,
    ],
)
def test_a_bad_line_is_named(line: str) -> None:
    with pytest.raises(MalformedHistory, match="line 2 is no record of a history: "):
        from_lines(['{"type": "info", "time": 0, "call": 0}', line])
