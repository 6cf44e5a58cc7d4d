"""One connection's exchange: what is told about its end, and steps that take their time in a thread."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from codec.constants import ErrorCode
from proxy.frontend.negotiation import Negotiation
from proxy.frontend.waiting import SaslAnswer
from proxy.sasl.exchange import Exchange, Failed, Malformed, Step


class Told:
    """What the connection is told."""

    def __init__(self) -> None:
        self.proven: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.later: asyncio.Queue[SaslAnswer] = asyncio.Queue()


class Mechanism:
    """Answers a token with itself; "bob" is proven, and some tokens are errors."""

    def __init__(self, blocks: bool) -> None:
        self.blocks = blocks
        self.threads: list[str] = []

    def step(self, token: bytes) -> Step:
        self.threads.append(threading.current_thread().name)
        if token == b"malformed":
            raise Malformed("not a token")
        if token == b"bug":
            raise ZeroDivisionError("a bug")
        if token != b"bob":
            raise Failed("wrong", "amy")
        return Step(token, "bob")


class FakeLogin:
    def __init__(self, mechanism: Exchange, *, demanded: bool = False, allowed: bool = False) -> None:
        self.threads = ThreadPoolExecutor(1, "sasl")
        self.is_demanded = demanded
        self.allows_failed = allowed
        self._mechanism = mechanism

    def begin(self, token: bytes) -> Exchange:
        if token == b"unwanted":
            raise Failed("no mechanism")
        return self._mechanism


def negotiation(told: Told, login: FakeLogin) -> Negotiation:
    loop = asyncio.get_running_loop()
    refused: Callable[[str, str], None] = lambda name, reason: told.refused.append((name, reason))  # noqa: E731
    return Negotiation(cast(Any, login), loop, told.proven.append, refused, told.later.put_nowait)


REFUSED = SaslAnswer(ErrorCode.AUTH_FAILED, None)


@pytest.mark.parametrize(
    ("demanded", "allowed", "answer"),
    [
        (False, False, REFUSED),
        (False, True, SaslAnswer(0, None)),
        (True, False, SaslAnswer(ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH, None)),
        (True, True, SaslAnswer(ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH, None)),
    ],
)
async def test_what_a_failure_is_answered(demanded: bool, allowed: bool, answer: SaslAnswer) -> None:
    told = Told()
    login = FakeLogin(Mechanism(blocks=False), demanded=demanded, allowed=allowed)
    assert negotiation(told, login).step(b"x") == answer
    assert (told.proven, told.refused) == ([], [("amy", "wrong")])


async def test_what_cannot_be_read_is_not_answered() -> None:
    told = Told()
    answer = negotiation(told, FakeLogin(Mechanism(blocks=False), allowed=True)).step(b"malformed")
    assert answer is not None
    assert answer.err
    assert not answer.is_sent


async def test_a_mechanism_that_is_not_there_refuses() -> None:
    told = Told()
    assert negotiation(told, FakeLogin(Mechanism(blocks=False))).step(b"unwanted") == REFUSED


async def test_a_quick_step_is_answered_at_once() -> None:
    told = Told()
    assert negotiation(told, FakeLogin(Mechanism(blocks=False))).step(b"bob") == SaslAnswer(0, b"bob")
    assert told.proven == ["bob"]


@pytest.mark.parametrize(
    ("token", "answer"), [(b"bob", SaslAnswer(0, b"bob")), (b"x", REFUSED), (b"bug", REFUSED)]
)
async def test_a_step_that_blocks_has_a_thread(
    token: bytes, answer: SaslAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    mechanism = Mechanism(blocks=True)
    assert negotiation(told, FakeLogin(mechanism)).step(token) is None
    assert await asyncio.wait_for(told.later.get(), 60) == answer
    assert mechanism.threads == ["sasl_0"]
    assert told.proven == (["bob"] if token == b"bob" else [])
    assert ("a step of a SASL exchange failed" in caplog.text) is (token == b"bug")
