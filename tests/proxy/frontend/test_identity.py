"""One connection's exchange: what is reported of its end, and steps that take their time in a thread."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from codec.constants import ErrorCode
from proxy.frontend.identity import Negotiation
from proxy.frontend.requests import SaslAnswer
from proxy.sasl.exchange import Exchange, Failed, Malformed, Step


class Claimant:
    """Keeps what becomes of the exchange."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.refusals: list[tuple[str, str]] = []
        self.later: asyncio.Queue[SaslAnswer] = asyncio.Queue()

    def proven(self, name: str, *, is_super: bool) -> None:
        assert not is_super
        self.names.append(name)

    def refused(self, scheme: str, name: str, reason: str) -> None:
        assert scheme == "sasl"
        self.refusals.append((name, reason))

    def negotiated(self, answer: SaslAnswer) -> None:
        self.later.put_nowait(answer)


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
        self.super_users: frozenset[str] = frozenset()
        self.allows_failed = allowed
        self._mechanism = mechanism

    def begin(self, token: bytes) -> Exchange:
        if token == b"unwanted":
            raise Failed("no mechanism")
        return self._mechanism


def negotiation(claimant: Claimant, login: FakeLogin | None = None) -> Negotiation:
    login = login or FakeLogin(Mechanism(blocks=False))
    return Negotiation(cast(Any, login), asyncio.get_running_loop(), cast(Any, claimant))


REFUSED = SaslAnswer(ErrorCode.AUTH_FAILED, None)


@pytest.mark.parametrize(
    ("demanded", "allowed", "err"),
    [
        (False, False, ErrorCode.AUTH_FAILED),
        (False, True, 0),
        (True, False, ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH),
        (True, True, ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH),
    ],
)
async def test_what_a_failure_is_answered(demanded: bool, allowed: bool, err: int) -> None:
    claimant = Claimant()
    login = FakeLogin(Mechanism(blocks=False), demanded=demanded, allowed=allowed)
    assert negotiation(claimant, login).step(b"x") == SaslAnswer(err, None)
    assert (claimant.names, claimant.refusals) == ([], [("amy", "wrong")])
    answer = negotiation(claimant, login).step(b"malformed")  # what cannot be read is not answered
    assert answer is not None
    assert answer.err
    assert not answer.is_sent


async def test_a_quick_step_is_answered_at_once() -> None:
    claimant = Claimant()
    assert negotiation(claimant).step(b"bob") == SaslAnswer(0, b"bob")
    assert claimant.names == ["bob"]
    assert negotiation(claimant).step(b"unwanted") == REFUSED  # of a mechanism that is not there


@pytest.mark.parametrize(
    ("token", "answer"), [(b"bob", SaslAnswer(0, b"bob")), (b"x", REFUSED), (b"bug", REFUSED)]
)
async def test_a_step_that_blocks_has_a_thread(
    token: bytes, answer: SaslAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    claimant = Claimant()
    mechanism = Mechanism(blocks=True)
    assert negotiation(claimant, FakeLogin(mechanism)).step(token) is None
    assert await asyncio.wait_for(claimant.later.get(), 60) == answer
    assert mechanism.threads == ["sasl_0"]
    assert claimant.names == (["bob"] if token == b"bob" else [])
    assert ("a step of a SASL exchange failed" in caplog.text) is (token == b"bug")
