"""Who waits for what, of clients that are made up."""

import asyncio
from time import perf_counter_ns

import pytest

from codec.constants import OpCode
from console.answers.clients import Order, pending, sessions
from console.walks.pacing import Pace
from proxy.frontend.requests import Waiting
from proxy.state.sessions import Session
from proxy.support.latency import ConnectionLatency, Latency
from tests.proxy.admin import subjects


async def test_requests_without_an_answer_are_told_with_what_they_wait_for() -> None:
    now = perf_counter_ns()
    requests = [
        Waiting(OpCode.SET_DATA, "/a", True, now - 5_000_000_000),
        Waiting(OpCode.GET_DATA, None, False, now),
    ]
    latency = Latency({})
    busy = subjects.Connection(ConnectionLatency(latency), requests * 20, session_id=0x1F, outstanding=2)
    connections = subjects.connected(subjects.Connection(ConnectionLatency(latency)), busy)
    subject = subjects.subject_of(replicated=subjects.LogFacts(outstanding=1), connections=connections)
    found = await pending(subject, Pace(asyncio.Lock(), lambda: False))
    (row,) = found["rows"]
    assert (found["clients"], row["session"], row["outstanding"]) == (1, "0x1f", 2)
    first, second = row["requests"][:2]
    assert (first["operation"], first["path"], first["waitsFor"]) == ("SETD", "/a", "the log")
    assert first["ms"] >= 5000
    assert (second["operation"], second["path"], second["waitsFor"]) == (
        "GETD",
        None,
        "the request before it",
    )
    assert len(row["requests"]) == 5


async def test_of_very_many_clients_some_are_told_and_all_counted() -> None:
    latency = ConnectionLatency(Latency({}))
    connections = subjects.connected(
        *(subjects.Connection(latency, session_id=number, outstanding=1) for number in range(1000))
    )
    subject = subjects.subject_of(connections=connections)
    found = await pending(subject, Pace(asyncio.Lock(), lambda: False))
    assert (found["clients"], len(found["rows"])) == (1000, 200)


@pytest.mark.parametrize(
    ("down", "pages"),
    [(False, [["0x1", "0x2"], ["0x3", "0x4"], ["0x5"]]), (True, [["0x5", "0x4"], ["0x3", "0x2"], ["0x1"]])],
)
async def test_the_pages_of_sessions_in_both_directions(down: bool, pages: list[list[str]]) -> None:
    subject = subjects.subject_of()
    subject.machine.sessions.update({number: Session(number, 4000, b"", "p") for number in range(1, 6)})
    found, after = [], None
    while True:
        order = Order(down=down, after=after, limit=2)
        page = await sessions(subject, order, Pace(asyncio.Lock(), lambda: False))
        found.append([each["id"] for each in page["sessions"]])
        if page["next"] is None:
            break
        after = int(page["next"], 16)
    assert found == pages
