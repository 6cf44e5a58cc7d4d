"""A step of SASL that takes its time in a thread; tests/compat/test_sasl.py has the answers to clients."""

import asyncio
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.x509 import Name, NameAttribute
from cryptography.x509.oid import NameOID

from codec.constants import ErrorCode
from codec.jute import INT, pack_string
from lab.servers.tls import Authority
from proxy.frontend.authentication import SaslAnswer
from proxy.frontend.identity import ClientIdentity, Negotiation
from proxy.sasl.exchange import Failed, Step
from proxy.state.auth.schemes import AuthSchemes
from proxy.support.counters import Counters


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
    """Answers a token with itself; "bob" is proven, and some tokens are errors. Its steps block."""

    blocks = True

    def __init__(self) -> None:
        self.threads: list[str] = []

    def step(self, token: bytes) -> Step:
        self.threads.append(threading.current_thread().name)
        if token == b"bug":
            raise ZeroDivisionError("a bug")
        if token != b"bob":
            raise Failed("wrong", "amy")
        return Step(token, "bob")


REFUSED = SaslAnswer(ErrorCode.AUTH_FAILED, None)


@pytest.mark.parametrize(
    ("token", "answer"), [(b"bob", SaslAnswer(0, b"bob")), (b"x", REFUSED), (b"bug", REFUSED)]
)
async def test_a_step_that_blocks_has_a_thread(
    token: bytes, answer: SaslAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    claimant = Claimant()
    mechanism = Mechanism()
    login = SimpleNamespace(
        begin=lambda _token: mechanism,
        threads=ThreadPoolExecutor(1, "sasl"),
        super_users=(),
        is_demanded=False,
        allows_failed=False,
    )
    loop = asyncio.get_running_loop()
    assert Negotiation(cast(Any, login), loop, cast(Any, claimant)).step(token) is None
    assert await asyncio.wait_for(claimant.later.get(), 60) == answer
    assert mechanism.threads == ["sasl_0"]
    assert claimant.names == (["bob"] if token == b"bob" else [])
    assert ("a step of a SASL exchange failed" in caplog.text) is (token == b"bug")


async def test_the_logs_have_the_beginning_of_a_long_scheme(caplog: pytest.LogCaptureFixture) -> None:
    schemes: list[str] = []
    claimant = Claimant()
    logs = cast(Any, SimpleNamespace(refused=lambda _client, scheme, _name: schemes.append(scheme)))
    loop = asyncio.get_running_loop()
    identity = ClientIdentity(AuthSchemes(), None, Counters(), logs, loop, claimant.negotiated)
    packet = INT.pack(0) + pack_string("\1" * 1_000_000) + INT.pack(-1)
    assert identity.prove(packet, 0) is False
    assert schemes == ["\1" * 100]
    assert len(caplog.text) < 2000


async def test_a_certificate_with_a_long_name_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenSSL takes 60 KB of it, which each write of the client would carry to etcd."""
    authority = Authority(tmp_path)
    loop = asyncio.get_running_loop()

    def is_usable(units: int) -> bool:
        unit = NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "u" * 64)
        pem = authority.issue_for("client", Name([unit] * units)).cert.read_text()
        tls = SimpleNamespace(getpeercert=lambda binary_form: ssl.PEM_cert_to_DER_cert(pem))
        known = {"peername": ("10.0.0.1", 1234), "ssl_object": tls}
        identity = ClientIdentity(AuthSchemes(), None, Counters(), None, loop, Claimant().negotiated)
        return identity.connected(cast(Any, SimpleNamespace(get_extra_info=known.get)))

    assert is_usable(50)
    assert not caplog.text
    assert not is_usable(60)
    assert "closing 10.0.0.1: its certificate: its subject has 4" in caplog.text
