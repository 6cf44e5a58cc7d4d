"""The console over HTTP: logins, headers, files, and how it refuses."""

import asyncio
import hashlib
import io
import ssl
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import aiohttp
import pytest
from cryptography import x509

from lab.servers.tls import Authority
from proxy.config import parse
from proxy.frontend.certificates import TlsContext
from tests.console.consoles import ASSETS, PASSWORD, Operator, alone, amy_and_ben, place


async def test_nothing_is_answered_without_a_login() -> None:
    async with place("amy") as where, where.operator() as operator, where.operator() as other:
        assert await operator.got("session") == {"login": True}
        for name in ("node", "children", "search", "sessions", "traffic", "log", "proxies", "deletions"):
            await operator.refused(401, "log in first", name)
        await operator.refused(401, "", "identities", {"credentials": "a:b"})
        await operator.refused(401, "", "data")
        for user, password in (("amy", "wrong horse"), ("eve", PASSWORD), ("amy", "x" * 2000)):
            assert await operator.log_in(user, password) == 401
        assert await operator.log_in("amy") == 200
        assert (await operator.got("session"))["user"] == "amy"
        assert (await operator.got("node"))["path"] == "/"
        await other.refused(401, "", "node")
        await operator.got("logout", {})
        await operator.refused(401, "", "node")
        # Who is not logged in can send little.
        much = {"user": "amy", "password": "x" * 20_000}
        await operator.refused(413, "the request has more than 16384 bytes", "login", much)


async def test_a_login_is_a_cookie_that_no_script_and_no_other_site_has() -> None:
    async with place("amy") as where, where.operator() as operator:
        async with operator.session.post(
            f"{operator.url}api/v1/login",
            json={"user": "amy", "password": PASSWORD},
            headers=operator.headers,
        ) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert f"zketcd-console-{where.port}=" in cookie
        assert {"HttpOnly", "SameSite=Strict", "Path=/console"} <= set(cookie.split("; "))


@pytest.mark.long
async def test_passwords_cannot_be_tried_without_end() -> None:
    async with place("amy") as where, where.operator() as operator:
        answers = [await operator.log_in("amy", "wrong horse") for _ in range(7)]
        assert answers == [401] * 5 + [429] * 2
        assert await operator.log_in("amy") == 429


@pytest.mark.long
async def test_who_tries_passwords_does_not_lock_out_a_browser_in_which_its_user_has_logged_in() -> None:
    async with place("amy", "bob") as where, where.operator() as operator, where.operator() as stranger:
        assert await operator.log_in("amy") == 200
        cookies = {cookie.key: cookie for cookie in operator.session.cookie_jar}
        cookie = cookies[f"zketcd-console-known-{where.port}"]
        assert (cookie["httponly"], cookie["samesite"], cookie["max-age"]) == (True, "Strict", "2592000")
        # From the same address, as behind a NAT.
        answers = [await stranger.log_in(user, "wrong horse") for user in ("amy", "bob") * 5]
        assert answers[-1] == 429
        assert await stranger.log_in("amy") == 429
        await operator.got("logout", {})
        assert await operator.log_in("amy") == 200
        assert await operator.log_in("bob") == 429
        operator.session.cookie_jar.clear()
        assert await operator.log_in("amy") == 429


async def test_a_body_has_to_come_in_time() -> None:
    async with place("amy") as where:
        reader, writer = await asyncio.open_connection("127.0.0.1", where.port)
        with mock.patch("console.http._TIMEOUT", 0.05):
            writer.write(
                b"POST /console/api/v1/login HTTP/1.1\r\nHost: localhost\r\nX-Zketcd-Console: 1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            async with asyncio.timeout(60):
                assert b" 408 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_a_browser_that_goes_within_its_request_is_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with place("amy") as where:
        _, writer = await asyncio.open_connection("127.0.0.1", where.port)
        writer.write(
            b"POST /console/api/v1/login HTTP/1.1\r\nHost: localhost\r\nX-Zketcd-Console: 1\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        await writer.drain()
        await asyncio.sleep(0.1)  # the request is being read
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.1)
    assert "could not be answered" not in caplog.text


async def test_each_login_has_its_own_identities() -> None:
    async with amy_and_ben() as (_, amy, ben):
        await amy.got("identities", {"credentials": "amy:secret"})
        assert (await amy.got("session"))["identities"] == ["digest:amy"]
        assert (await ben.got("session"))["identities"] == []


async def test_a_page_of_another_site_gets_nothing() -> None:
    """By which headers is in test_guard.py."""
    async with alone() as (_, operator):
        await operator.got("node")
        operator.headers["Sec-Fetch-Site"] = "cross-site"
        await operator.refused(403, "", "node")


async def test_every_answer_has_the_policy() -> None:
    async with place("amy") as where, where.operator() as operator:
        seen = {}
        files = ("", "style.css", "main.js", "icon.svg", "none.js")
        for name in (*files, "api/v1/session", "api/v1/node", "x/y"):
            async with operator.session.get(operator.url + name, headers=operator.headers) as answer:
                seen[name] = answer.status
                policy = answer.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'self';")
                assert "unsafe" not in policy
                assert answer.headers["X-Frame-Options"] == "DENY"
        assert list(seen.values()) == [200, 200, 200, 200, 404, 200, 401, 404]


async def test_files_are_sent_again_only_if_they_changed() -> None:
    async with alone() as (_, operator), operator.session.get(operator.url + "main.js") as first:
        tag = {"If-None-Match": first.headers["ETag"]}
        async with operator.session.get(operator.url + "main.js", headers=tag) as second:
            assert (first.status, second.status) == (200, 304)
    async with alone() as (_, operator), operator.session.get(operator.url[:-1]) as entered:
        assert str(entered.url) == operator.url


# -- bad input -----------------------------------------------------------------------------------------------


_DOCUMENTS = [
    b"",
    b"[]",
    b"{",
    b"[" * 100_000,
    b"\xff",
    b'{"path": 7, "data": ""}',
    b'{"path": "/a", "data": "!"}',
    b'{"path": "/a", "data": 7}',
    b'{"path": "/a", "version": true}',
    b'{"path": "/a", "version": 2147483648}',
    b'{"path": "/a", "version": 1e3}',
    b'{"path": "/a//b"}',
    b'{"path": "/\\u0000"}',
    b'{"path": "/\\ud800"}',
    b'{"path": ""}',
    b'{"data": ""}',
    b'{"path": "/a"}',
]


async def test_bad_documents() -> None:
    async with alone(write=True) as (_, operator):
        headers = {**operator.headers, "Content-Type": "application/json"}
        large = b'{"data": "' + b"A" * (3 << 20) + b'"}'
        for body, status in (*((body, 400) for body in _DOCUMENTS), (large, 413)):
            async with operator.session.post(
                f"{operator.url}api/v1/set", data=io.BytesIO(body), headers=headers
            ) as answer:
                assert answer.status == status, (body[:99], await answer.text())
        operator.headers["Content-Type"] = "text/plain"
        assert (await operator.ask("set", {"path": "/"}))[0] == 415


@pytest.mark.parametrize(("name", "write"), [("look", True), ("set", False)])
async def test_little_is_read_where_no_data_are_written(name: str, write: bool) -> None:
    async with alone(write=write) as (_, operator):
        await operator.refused(413, "the request has more than 65536 bytes", name, {"path": "/a" * 40_000})


async def test_a_fault_of_ours_is_told_without_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with alone() as (where, operator):
        with mock.patch.object(where.console.api, "session", side_effect=ZeroDivisionError):
            for _ in range(3):
                await operator.refused(500, "an error of the server: see its log", "session")
    logged = [
        (record.levelname, bool(record.exc_info))
        for record in caplog.records
        if record.name == "console.http"
    ]
    assert logged.count(("ERROR", True)) == 1, "one of a kind in 30 s"


# -- the page ------------------------------------------------------------------------------------------------


async def test_a_console_only_reads_unless_told_otherwise() -> None:
    async with alone() as (where, operator):
        for name in ("create", "set", "delete", "deletions", "deletions/confirm", "deletions/withdraw"):
            await operator.refused(403, "--console-write", name, {"path": "/a", "data": ""})
        assert "/a" not in where.nodes


def test_the_page_is_ours_alone() -> None:
    """No file of the page names another host, or has scripts or styles where the policy forbids them."""
    for name, asset in ASSETS.items():
        words = asset.content.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in words, name
        assert "https://" not in words, name
        assert "innerHTML" not in words, name
        assert " style=" not in words, name
        assert hashlib.sha256(asset.content).hexdigest().startswith(asset.tag.strip('"'))


class _Certificates(NamedTuple):
    server: ssl.SSLContext
    strangers: tuple[ssl.SSLContext, ...]  # of clients with no certificate, and with an empty subject
    amy: ssl.SSLContext


@pytest.fixture
def certificates(tmp_path: Path) -> _Certificates:
    authority = Authority(tmp_path)
    server, amy = authority.issue("server", "127.0.0.1"), authority.issue("amy", common_name="amy")
    nameless = authority.issue_for("nameless", x509.Name([]))
    files = {"cert": server.cert, "key": server.key, "ca": authority.ca}
    settings = parse([f"--tls-{name}={file}" for name, file in files.items()]).tls
    return _Certificates(
        TlsContext(replace(settings, client_auth="want")).for_listener(),
        (authority.client_context(), authority.client_context(nameless)),
        authority.client_context(amy),
    )


async def test_a_certificate_is_a_login(certificates: _Certificates) -> None:
    async with place(certificates=True, write=True, tls=certificates.server) as where:
        for context in (*certificates.strangers, certificates.amy):
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context), cookie_jar=aiohttp.CookieJar(unsafe=True)
            ) as session:
                operator = Operator(session, where.port)
                operator.url = operator.url.replace("http:", "https:")
                assert (await operator.ask("node"))[0] == (200 if context is certificates.amy else 401)
                found = await operator.got("session")
                if context is certificates.amy:
                    assert not found["login"]
                    assert found["user"].startswith("CN=amy")
                    await operator.got("create", {"path": "/a"})
                else:
                    assert found["login"]
                    await operator.refused(400, "", "login", {"user": "a", "password": "b"})
        assert "/a" in where.nodes
