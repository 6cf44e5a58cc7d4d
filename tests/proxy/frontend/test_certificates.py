"""TLS contexts from files, and what becomes of files that change."""

import asyncio
import contextlib
import datetime
import logging
import os
import re
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from lab.servers.tls import Authority, Pair
from proxy.frontend import certificates
from proxy.frontend.certificates import TlsContext, context_of
from proxy.options.tls import ClientTls
from tests.proxy.log.proxies import until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A CA with its files in the test's folder."""
    return Authority(tmp_path)


@pytest.fixture(autouse=True)
def _looks_often() -> Iterator[None]:
    with mock.patch.object(certificates, "_INTERVAL", 0.01):
        yield


def _settings(authority: Authority, pair: Pair, **changes: str) -> ClientTls:
    plain = ClientTls(
        str(pair.cert), str(pair.key), "", str(authority.ca), "none", "1.2", "", "only", None, ""
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def _names(context: ssl.SSLContext, trusted: Authority) -> str:
    """Whom a server with this context shows itself as."""
    client = trusted.client_context()
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    end = client.wrap_bio(to_client, to_server)
    for _ in range(4):
        for side in (end, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    subject = (end.getpeercert() or {})["subjectAltName"]
    assert isinstance(subject, tuple)
    return str(subject[0][1])


def test_the_settings_are_the_contexts(authority: Authority) -> None:
    pair = authority.issue("server")
    context = context_of(_settings(authority, pair, min_version="1.3", client_auth="want"))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_OPTIONAL
    assert context.get_ca_certs()
    few = context_of(_settings(authority, pair, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256", ca=""))
    old = [cipher["name"] for cipher in few.get_ciphers() if not cipher["name"].startswith("TLS_")]
    assert old == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_what_is_wrong_is_named(authority: Authority, tmp_path: Path) -> None:
    """More of it is in tests/serve/test_main_bad_input.py."""
    pair = authority.issue("server")
    empty, damaged = tmp_path / "empty.pem", tmp_path / "damaged.pem"
    empty.write_text("")
    damaged.write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    for changes, said in (
        ({"cert": str(empty)}, f"{empty} holds no certificate in PEM"),
        ({"cert": str(tmp_path / "missing")}, "missing: No such file"),
        ({"key": str(pair.cert)}, f"{pair.cert} holds no private key in PEM"),
        ({"ca": str(empty)}, f"{empty} holds no certificate"),
        ({"ca": str(damaged)}, f"the CA {damaged}"),
        ({"ciphers": "nonsense"}, "the ciphers 'nonsense': No cipher can be selected"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            TlsContext(_settings(authority, pair, **changes))


def test_a_key_may_have_a_password(authority: Authority) -> None:
    pair = authority.issue("server")
    key = load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
    )
    context_of(_settings(authority, pair, key_password="word"))
    for wrong in ("", "other"):
        with pytest.raises(ValueError, match="the key"):
            context_of(_settings(authority, pair, key_password=wrong))


async def test_new_files_are_read_and_bad_ones_are_not(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pair = authority.issue("server", "one.example")
    tls = await asyncio.to_thread(TlsContext, _settings(authority, pair))
    kept = await asyncio.to_thread(tls.for_listener)  # as a listener keeps it
    following = asyncio.get_running_loop().create_task(tls.follow())
    first = tls.current
    await asyncio.to_thread(pair.cert.write_text, "no certificate")
    await until(lambda: f"kept as it was: {pair.cert} holds no certificate in PEM" in caplog.text)
    os.remove(pair.cert)
    await until(lambda: "No such file" in caplog.text)
    assert tls.current is first
    assert _names(kept, authority) == "one.example"
    caplog.clear()
    authority.issue("server", "two.example")
    await until(lambda: "was read again" in caplog.text)
    assert [_names(each, authority) for each in (first, tls.current, kept)] == [
        *("one.example", "two.example", "two.example")
    ]
    following.cancel()


async def test_the_end_is_that_of_the_certificate_in_use(authority: Authority) -> None:
    """A new certificate without its key is not used, so the former one still ends when it does."""
    pair = authority.issue("server")
    tls = await asyncio.to_thread(TlsContext, _settings(authority, pair))
    first = tls.certificates
    assert [each.option for each in first] == ["--tls-cert", "--tls-ca"]
    following = asyncio.create_task(tls.follow())
    other = Authority(Path(authority.ca.parent), "other")
    later = other.authority.issue_cert(
        "a", not_after=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=9)
    )
    old_key = pair.key.read_bytes()
    chain = b"".join(pem.bytes() for pem in later.cert_chain_pems)
    pair.cert.write_bytes(chain)
    await asyncio.sleep(0.1)
    assert tls.certificates == first
    authority.write("server", chain, later.private_key_pem.bytes())
    assert pair.key.read_bytes() != old_key
    await until(lambda: tls.certificates != first)
    following.cancel()
