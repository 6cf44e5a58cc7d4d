"""The console over HTTP: what it answers, to whom, and how it refuses."""

import asyncio
import hashlib
import io
import json
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import aiohttp
import pytest
from cryptography import x509

from codec.jute import INT, Acl
from console import api
from lab.servers.tls import Authority
from proxy.config import parse
from proxy.frontend.certificates import TlsContext
from proxy.sasl.options import SaslSettings
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identities
from tests.console.consoles import ASSETS, LONG_SESSION, PASSWORD, Operator, alone, place, text
from tests.proxy import packets
from tests.proxy.test_server import Client

_WEIRD = ["/<img src=x onerror=alert(1)>", "/ä ö", "/a%2Fb", "/q?x=1&y#z", "/'\"`", "/\u202eright"]
_AMY = digest_identity(b"amy:secret")


async def client_of(server: Any) -> Client:
    return await Client.connected(server, timeout_ms=LONG_SESSION)


async def create(client: Client, *nodes: tuple[str, bytes], flags: int = 0) -> None:
    client.send(*(packets.create(xid, path, data, flags) for xid, (path, data) in enumerate(nodes, 1)))
    for _ in nodes:
        assert (await client.reply()).err == 0


# -- the tree ------------------------------------------------------------------------------------------------


async def test_a_znode() -> None:
    async with alone() as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/a", b'{"x": 1}'), ("/a/b", b"\xff\x00"))
        found = await operator.got("node", path="/a")
        zxid = f"0x{where.server.machine.zxid:x}"
        assert found["data"] == text('{"x": 1}')
        assert (found["kind"], found["truncated"]) == ("persistent", False)
        assert found["acl"] == [
            {"scheme": "world", "id": "anyone", "permissions": ["read", "write", "create", "delete", "admin"]}
        ]
        assert (
            found["stat"].items()
            >= {
                "version": 0,
                "cversion": 1,
                "dataLength": 8,
                "numChildren": 1,
                "pzxid": zxid,
                "ephemeralOwner": "0x0",
            }.items()
        )
        assert (await operator.got("node", path="/a/b"))["data"] == text(b"\xff\x00")
        assert (await operator.ask("node", path="/none"))[0] == 404


async def test_odd_paths_are_found_as_they_are() -> None:
    async with alone() as (where, operator):
        client = await client_of(where.server)
        await create(client, *((path, path.encode()) for path in _WEIRD))
        children = (await operator.got("children", path="/"))["children"]
        assert [row["name"] for row in children] == sorted([*(path[1:] for path in _WEIRD), "zookeeper"])
        for path in _WEIRD:
            assert (await operator.got("node", path=path))["data"] == text(path)
            assert (await operator.got("search", text=path[1:]))["paths"] == [path]


async def test_large_data_are_shown_in_part_and_can_be_downloaded() -> None:
    content = bytes(range(256)) * 4000
    async with alone() as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/large", content))
        found = await operator.got("node", path="/large")
        assert found["truncated"]
        assert found["data"] == text(content[: 64 << 10])
        async with operator.session.get(f"{operator.url}api/v1/data", params={"path": "/large"}) as answer:
            assert await answer.read() == content
            assert answer.content_type == "application/octet-stream"
            assert answer.headers["Content-Disposition"].startswith("attachment")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_children_page_by_name() -> None:
    async with alone() as (where, operator):
        client = await client_of(where.server)
        names = [f"n{number:03d}" for number in range(250)]
        await create(client, ("/d", b""), *((f"/d/{name}", b"") for name in names))
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            page = await operator.got("children", path="/d", after=after, limit=100)
            assert page["total"] == 250
            found += [row["name"] for row in page["children"]]
            after = page["next"]
        assert found == names
        page = await operator.got("children", path="/d", prefix="n24")
        assert [row["name"] for row in page["children"]] == names[240:]


async def test_a_search_goes_on_from_its_cursor() -> None:
    async with alone() as (where, operator):
        client = await client_of(where.server)
        paths = [f"/d/{name}/x" for name in "abcdef"]
        await create(
            client, ("/d", b""), *((path[:-2], b"") for path in paths), *((path, b"") for path in paths)
        )
        with mock.patch.object(api, "_MOST_VISITED", 4):
            found: list[str] = []
            after: dict[str, str] | None = {}
            requests = 0
            while after is not None:
                page = await operator.got("search", None, path="/d", text="/x", **after)
                assert page["visited"] <= 4
                found += page["paths"]
                after = None if page["next"] is None else {"after": page["next"]}
                requests += 1
        assert found == paths
        assert requests == 4  # of 13 znodes
        page = await operator.got("search", text="/x", limit=2)
        assert (page["paths"], page["next"]) == (paths[:2], paths[1])


async def test_acls_bind_the_console() -> None:
    async with alone() as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/hers", b"data"), ("/hers/below", b""))
        client.send(packets.set_acl(3, "/hers", [Acl(31, "digest", _AMY.id), Acl(8, "world", "anyone")]))
        assert (await client.reply()).err == 0
        for identities in (None, "amy:wrong", "ben:secret"):
            if identities:
                await operator.got("identities", {"credentials": identities})
            for name in ("node", "children"):
                status, body = await operator.ask(name, path="/hers")
                assert (status, "add an identity" in body["error"]) == (403, True)
            assert (await operator.ask("data", path="/hers"))[0] == 403
            assert (await operator.got("search", text="hers"))["paths"] == ["/hers"]
            (row,) = (await operator.got("children", path="/", prefix="h"))["children"]
            assert row == {"name": "hers", "readable": False, "children": None, "kind": None}
        answer = await operator.got("identities", {"credentials": "amy:secret"})
        assert answer == {"identities": ["digest:amy", "digest:ben", "digest:amy"]}
        found = await operator.got("node", path="/hers")
        assert found["data"] == text("data")
        assert found["acl"][0]["id"] == _AMY.id
        assert (await operator.got("search", text="hers"))["paths"] == ["/hers", "/hers/below"]
        await operator.got("identities/forget", {})
        assert (await operator.ask("node", path="/hers"))[0] == 403


async def test_password_hashes_are_only_for_those_who_may_set_the_acl() -> None:
    async with alone() as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/shared", b""))
        client.send(packets.set_acl(2, "/shared", [Acl(31, "digest", _AMY.id), Acl(1, "world", "anyone")]))
        assert (await client.reply()).err == 0
        assert (await operator.got("node", path="/shared"))["acl"][0]["id"] == "amy:x"


# -- clients and the proxy -----------------------------------------------------------------------------------


async def test_sessions_with_their_ephemerals_and_watches() -> None:
    async with alone() as (where, operator):
        clients = [await client_of(where.server) for _ in range(3)]
        await create(clients[0], ("/e", b""), flags=1)
        clients[0].send(packets.get(2, "/e", watch=True))
        await clients[0].reply()
        first = await operator.got("sessions", limit=2)
        second = await operator.got("sessions", limit=2, after=first["next"])
        assert (first["total"], second["next"]) == (3, None)
        rows = {row["id"]: row for row in (*first["sessions"], *second["sessions"])}
        assert set(rows) == {f"0x{client.session.session_id:x}" for client in clients}
        own = f"0x{clients[0].session.session_id:x}"
        assert (rows[own]["ephemerals"], rows[own]["watches"], rows[own]["here"]) == (1, 1, True)
        found = await operator.got("sessions/one", id=own)
        assert found["paths"] == ["/e"]
        assert found["watched"] == [{"path": "/e", "kinds": ["data"]}]
        assert found["lastOperation"] == "GETD"
        assert found["users"] == ["ip:127.0.0.1"]
        assert (await operator.got("node", path="/e"))["stat"]["ephemeralOwner"] == own
        watches = (await operator.got("watches"))["watches"]
        assert watches == [{"path": "/e", "total": 1, "watchers": [{"session": own, "kind": "data"}]}]
        assert (await operator.got("watches", prefix="/f"))["watches"] == []
        assert (await operator.ask("sessions/one", id="0x1"))[0] == 404


async def test_traffic_log_and_proxies() -> None:
    async with alone() as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/a", b""))
        client.send(packets.get(2, "/a"), packets.get(3, "/a"))
        await client.reply()
        await client.reply()
        traffic = await operator.got("traffic")
        reads = traffic["operations"]["get_data"]
        assert (reads["count"], reads["update"]) == (2, False)
        assert sum(count for _, count in reads["buckets"]) == 2
        log = await operator.got("log")
        assert log["applied"] == where.server.log.position
        assert (log["current"], log["previous"], log["backlog"]) == (None, None, 0)
        proxies = await operator.got("proxies")
        (row,) = proxies["rows"]
        assert (row["self"], row["eldest"], row["sessions"], row["behind"]) == (True, True, 1, 0)
        assert (await operator.got("pending"))["clients"] == 0


# -- who may ask ---------------------------------------------------------------------------------------------


async def test_nothing_is_answered_without_a_login() -> None:
    async with place("amy", "ben") as where, where.operator() as operator, where.operator() as other:
        assert await operator.got("session") == {"login": True}
        for name in ("node", "children", "search", "sessions", "traffic", "log", "proxies", "deletions"):
            assert await operator.ask(name) == (401, {"error": "log in first"})
        assert (await operator.ask("identities", {"credentials": "a:b"}))[0] == 401
        assert (await operator.ask("data"))[0] == 401
        for user, password in (("amy", "wrong horse"), ("eve", PASSWORD), ("amy", "x" * 2000)):
            assert await operator.log_in(user, password) == 401
        assert await operator.log_in("amy") == 200
        assert (await operator.got("session"))["user"] == "amy"
        assert (await operator.got("node"))["path"] == "/"
        assert (await other.ask("node"))[0] == 401
        await operator.got("logout", {})
        assert (await operator.ask("node"))[0] == 401


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


async def test_passwords_cannot_be_tried_without_end() -> None:
    async with place("amy") as where, where.operator() as operator:
        answers = [await operator.log_in("amy", "wrong horse") for _ in range(7)]
        assert answers == [401] * 5 + [429] * 2
        assert await operator.log_in("amy") == 429


async def test_who_is_not_logged_in_can_send_little() -> None:
    async with place("amy") as where, where.operator() as operator:
        status, body = await operator.ask("login", {"user": "amy", "password": "x" * 20_000})
        assert (status, body) == (413, {"error": "the request has more than 16384 bytes"})


async def test_a_body_has_to_come_in_time() -> None:
    async with place("amy") as where:
        reader, writer = await asyncio.open_connection("127.0.0.1", where.port)
        with mock.patch("console.http._PATIENCE", 0.05):
            writer.write(
                b"POST /console/api/v1/login HTTP/1.1\r\nHost: localhost\r\nX-Zketcd-Console: 1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            async with asyncio.timeout(60):
                assert b" 408 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_each_login_has_its_own_identities() -> None:
    async with place("amy", "ben") as where, where.operator() as amy, where.operator() as ben:
        assert [await amy.log_in("amy"), await ben.log_in("ben")] == [200, 200]
        await amy.got("identities", {"credentials": "amy:secret"})
        assert (await amy.got("session"))["identities"] == ["digest:amy"]
        assert (await ben.got("session"))["identities"] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-Zketcd-Console": None}, 403),
    ],
)
async def test_a_page_of_another_site_gets_nothing(headers: dict[str, str | None], status: int) -> None:
    async with alone() as (_, operator):
        for name, value in headers.items():
            operator.headers.pop(name, None)
            if value is not None:
                operator.headers[name] = value
        assert (await operator.ask("node"))[0] == status


async def test_every_answer_has_the_policy() -> None:
    async with place("amy") as where, where.operator() as operator:
        seen = {}
        for name in (
            "",
            "style.css",
            "main.js",
            "icon.svg",
            "none.js",
            "api/v1/session",
            "api/v1/node",
            "x/y",
        ):
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


@pytest.mark.parametrize(
    ("name", "query", "status"),
    [
        ("node", {"path": "/\0"}, 404),
        ("node", {"path": "//"}, 404),
        ("node", {"path": "relative"}, 404),
        ("node", {"path": "/" + "x" * 7000}, 404),
        ("children", {"limit": "0"}, 400),
        ("children", {"limit": "-1"}, 400),
        ("children", {"limit": "²"}, 400),
        ("children", {"limit": "9" * 5000}, 400),
        ("children", {"limit": "999999"}, 200),
        ("search", {}, 400),
        ("search", {"text": "x" * 1001}, 400),
        ("search", {"text": "x", "after": "/\0/\0"}, 200),
        ("search", {"text": "x", "after": "none"}, 200),
        ("search", {"text": "x", "path": "/none"}, 200),
        ("sessions", {"after": "soon"}, 400),
        ("sessions", {"after": "0x" + "f" * 17}, 400),
        ("sessions/one", {}, 400),
        ("sessions/one", {"id": "0x" + "f" * 16}, 404),
        ("nothing", {}, 404),
    ],
)
async def test_bad_queries(name: str, query: dict[str, str], status: int) -> None:
    async with alone() as (_, operator):
        found, body = await operator.ask(name, None, **query)
        assert found == status, body
        assert ("error" in body) is (status != 200)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b'{"path": 7, "data": ""}', 400),
        (b'{"path": "/a", "data": "!"}', 400),
        (b'{"path": "/a", "data": 7}', 400),
        (b'{"path": "/a", "version": true}', 400),
        (b'{"path": "/a", "version": 2147483648}', 400),
        (b'{"path": "/a", "version": 1e3}', 400),
        (b'{"path": "/a//b"}', 400),
        (b'{"path": "/\\u0000"}', 400),
        (b'{"path": "/\\ud800"}', 400),
        (b'{"path": ""}', 400),
        (b'{"data": ""}', 400),
        (b'{"path": "/a"}', 400),
        (b'{"data": "' + b"A" * (3 << 20) + b'"}', 413),
    ],
)
async def test_bad_documents(body: bytes, status: int) -> None:
    async with alone(write=True) as (_, operator):
        headers = {**operator.headers, "Content-Type": "application/json"}
        async with operator.session.post(
            f"{operator.url}api/v1/set", data=io.BytesIO(body), headers=headers
        ) as answer:
            assert answer.status == status, await answer.text()
        operator.headers["Content-Type"] = "text/plain"
        assert (await operator.ask("set", {"path": "/"}))[0] == 415


async def test_a_fault_of_ours_is_told_without_its_traceback() -> None:
    async with alone() as (where, operator):
        with mock.patch.object(where.console._api, "session", side_effect=ZeroDivisionError):
            assert await operator.ask("session") == (500, {"error": "an error of the server: see its log"})


# -- changes -------------------------------------------------------------------------------------------------


async def test_a_console_only_reads_unless_told_otherwise() -> None:
    async with alone() as (where, operator):
        for name in ("create", "set", "delete", "deletions", "deletions/confirm", "deletions/withdraw"):
            status, body = await operator.ask(name, {"path": "/a", "data": ""})
            assert (status, "--console-write" in body["error"]) == (403, True), name
        assert "/a" not in where.server.machine.tree.nodes


async def test_znodes_are_created_changed_and_deleted() -> None:
    async with alone(write=True) as (where, operator):
        nodes = where.server.machine.tree.nodes
        assert await operator.got("create", {"path": "/a", "data": text("1")}) == {"path": "/a"}
        assert (await operator.got("create", {"path": "/a/n-", "mode": "sequential"}))[
            "path"
        ] == "/a/n-0000000000"
        await operator.got("create", {"path": "/a/c", "mode": "container"})
        await operator.got("create", {"path": "/a/t", "mode": "ttl", "ttl": 60_000})
        kinds = {row["name"]: row["kind"] for row in (await operator.got("children", path="/a"))["children"]}
        assert kinds == {"c": "container", "n-0000000000": "persistent", "t": "ttl"}
        assert (await operator.got("node", path="/a/t"))["ttl"] == 60_000
        await operator.got("set", {"path": "/a", "data": text(b"\0\xff"), "version": 0})
        assert nodes["/a"].data == b"\0\xff"
        await operator.got("delete", {"path": "/a/c", "version": 0})
        assert "/a/c" not in nodes
        assert not where.server.machine.sessions  # each change has ended its session
        assert len(where.server.connections) == 0


async def test_refusals_are_told_plainly() -> None:
    async with alone(write=True) as (_, operator):
        await operator.got("create", {"path": "/a"})
        await operator.got("create", {"path": "/a/b"})
        for name, values, status, words in (
            ("create", {"path": "/a"}, 409, "already"),
            ("create", {"path": "/none/x"}, 404, "no such znode"),
            ("create", {"path": "/x", "mode": "ephemeral"}, 400, "mode is one of"),
            ("create", {"path": "/x", "mode": "ttl"}, 400, "ttl is in milliseconds"),
            ("create", {"path": "/x", "acl": "creator"}, 400, "add one first"),
            ("create", {"path": "/x/"}, 400, "no path"),
            ("create", {"path": "//", "mode": "sequential"}, 400, "no path"),
            ("set", {"path": "/a", "data": "", "version": 7}, 409, "another version"),
            ("delete", {"path": "/a"}, 409, "has children"),
            ("delete", {"path": "/zookeeper"}, 400, "not allowed"),
            ("delete", {"path": "/none"}, 404, "no such znode"),
        ):
            found, body = await operator.ask(name, values)
            assert (found, words in body["error"]) == (status, True), body


async def test_changes_obey_acls_and_the_audit_log_names_the_user() -> None:
    lines: list[str] = []
    with mock.patch("proxy.support.logs.audit.info", side_effect=lambda _form, line: lines.append(line)):
        async with (
            place("amy", "ben", write=True, audit_log="-") as where,
            where.operator() as amy,
            where.operator() as ben,
        ):
            await amy.log_in("amy")
            await ben.log_in("ben")
            await amy.got("identities", {"credentials": "joe:secret"})
            await amy.got("create", {"path": "/a", "acl": "creator"})
            assert (await ben.ask("set", {"path": "/a", "data": text("x")}))[0] == 403
            assert (await ben.ask("node", path="/a"))[0] == 403
            await amy.got("set", {"path": "/a", "data": text("y")})
            assert (await amy.got("node", path="/a"))["acl"][0]["id"].startswith("joe:")
    changes = [dict(pair.split("=", 1) for pair in line.split("\t")) for line in lines if "ip=" in line]
    assert [
        (each["user"], each["ip"], each["operation"], each["znode"], each["result"]) for each in changes
    ] == [
        ("joe,console:amy", "127.0.0.1", "create", "/a", "success"),
        ("console:ben", "127.0.0.1", "setData", "/a", "failure"),
        ("joe,console:amy", "127.0.0.1", "setData", "/a", "success"),
    ]


async def test_quotas_bind_the_console() -> None:
    async with alone(write=True, enforce_quota=True) as (where, operator):
        client = await client_of(where.server)
        await create(
            client,
            ("/q", b""),
            ("/zookeeper/quota/q", b""),
            ("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1;byteHardLimit=4"),
            ("/zookeeper/quota/q/zookeeper_stats", b"count=1,bytes=0"),
        )
        status, body = await operator.ask("set", {"path": "/q", "data": text("too long")})
        assert (status, "quota" in body["error"]) == (409, True)


async def test_a_change_without_a_session_is_known_not_to_be_made() -> None:
    async with alone(write=True, max_client_connections=1) as (where, operator):
        await client_of(where.server)
        status, body = await operator.ask("create", {"path": "/a"})
        assert (status, body["error"].endswith("nothing was changed")) == (503, True)


async def test_schemes_that_are_enforced_bind_the_console() -> None:
    async with alone(write=True, sasl=SaslSettings(enforced=("digest",))) as (_, operator):
        status, body = await operator.ask("create", {"path": "/a"})
        assert (status, "--enforce-auth-schemes" in body["error"]) == (403, True)
        await operator.got("identities", {"credentials": "amy:secret"})
        await operator.got("create", {"path": "/a"})


async def _subtree(operator: Operator, count: int) -> None:
    await operator.got("create", {"path": "/d"})
    for number in range(count - 1):
        await operator.got("create", {"path": f"/d/{number}"})


async def test_a_subtree_is_deleted_when_a_second_user_confirms() -> None:
    async with place("amy", "ben", write=True) as where, where.operator() as amy, where.operator() as ben:
        await amy.log_in("amy")
        await ben.log_in("ben")
        await _subtree(amy, 4)
        asked = await amy.got("deletions", {"path": "/d"})
        assert (asked["count"], asked["user"], asked["mayConfirm"]) == (4, "amy", False)
        confirmation = {"number": asked["number"], "path": "/d", "count": 4}
        status, body = await amy.ask("deletions/confirm", confirmation)
        assert (status, "another user" in body["error"]) == (403, True)
        assert (await ben.ask("deletions/confirm", {**confirmation, "count": 3}))[0] == 403
        assert (await ben.ask("deletions/confirm", {**confirmation, "path": "/"}))[0] == 403
        assert [each["mayConfirm"] for each in (await ben.got("deletions"))["deletions"]] == [True]
        assert await ben.got("deletions/confirm", confirmation) == {"path": "/d", "deleted": 4}
        assert "/d" not in where.server.machine.tree.nodes
        assert (await ben.ask("deletions/confirm", confirmation))[0] == 404
        assert (await ben.got("deletions"))["deletions"] == []


async def test_a_deletion_is_withdrawn_when_its_user_is_nobody_any_more() -> None:
    async with place("amy", "ben", write=True) as where, where.operator() as amy, where.operator() as ben:
        await amy.log_in("amy")
        await ben.log_in("ben")
        await _subtree(amy, 3)
        for farewell in ("identities/forget", "logout"):
            asked = await amy.got("deletions", {"path": "/d"})
            assert len((await ben.got("deletions"))["deletions"]) == 1
            await amy.got(farewell, {})
            assert (await ben.got("deletions"))["deletions"] == []
            confirmation = {"number": asked["number"], "path": "/d", "count": 3}
            assert (await ben.ask("deletions/confirm", confirmation))[0] == 404
        assert "/d" in where.server.machine.tree.nodes


async def test_a_deletion_is_of_what_was_counted() -> None:
    async with alone(write=True) as (where, operator):
        await _subtree(operator, 3)
        asked = await operator.got("deletions", {"path": "/d"})
        await operator.got("create", {"path": "/d/new"})
        status, body = await operator.ask(
            "deletions/confirm", {"number": asked["number"], "path": "/d", "count": 3}
        )
        assert (status, "has 4 znodes by now" in body["error"]) == (409, True)
        asked = await operator.got("deletions", {"path": "/d"})
        await operator.got("deletions/withdraw", {"number": asked["number"]})
        assert (await operator.got("deletions"))["deletions"] == []
        assert len(where.server.machine.tree.nodes["/d"].children or ()) == 3


async def test_a_deletion_is_not_of_others_with_the_same_number() -> None:
    async with alone(write=True) as (where, operator):
        await _subtree(operator, 3)
        asked = await operator.got("deletions", {"path": "/d"})
        await operator.got("delete", {"path": "/d/1"})
        await operator.got("create", {"path": "/d/1"})
        status, body = await operator.ask(
            "deletions/confirm", {"number": asked["number"], "path": "/d", "count": 3}
        )
        assert (status, "has other znodes by now" in body["error"]) == (409, True)
        assert "/d/1" in where.server.machine.tree.nodes


@pytest.mark.parametrize(
    ("path", "status"), [("/", 400), ("/zookeeper", 400), ("/zookeeper/quota", 400), ("/x", 404)]
)
async def test_what_cannot_be_deleted(path: str, status: int) -> None:
    async with alone(write=True) as (_, operator):
        assert (await operator.ask("deletions", {"path": path}))[0] == status


async def test_a_deletion_of_what_cannot_be_listed_or_deleted_is_refused() -> None:
    async with alone(write=True) as (where, operator):
        client = await client_of(where.server)
        await create(
            client, ("/d", b""), ("/d/hers", b""), ("/d/hers/x", b""), ("/d/kept", b""), ("/d/kept/x", b"")
        )
        client.send(packets.set_acl(6, "/d/kept", [Acl(1, "world", "anyone")]))
        assert (await client.reply()).err == 0
        asked = await operator.got("deletions", {"path": "/d"})
        status, body = await operator.ask(
            "deletions/confirm", {"number": asked["number"], "path": "/d", "count": 5}
        )
        assert (status, body["error"].endswith("0 of 5 znodes were deleted")) == (403, True)
        assert body["error"].startswith("/d/kept/x: ")
        client.send(packets.set_acl(7, "/d/hers", [Acl(31, "digest", _AMY.id)]))
        assert (await client.reply()).err == 0
        assert (await operator.ask("deletions", {"path": "/d"}))[0] == 403


async def test_what_cannot_be_listed_is_found_out_in_the_last_place_too() -> None:
    async with alone(write=True) as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/d", b""), ("/d/hers", b""), ("/d/hers/x", b""))
        client.send(packets.set_acl(4, "/d/hers", [Acl(31, "digest", _AMY.id)]))
        assert (await client.reply()).err == 0
        assert (await operator.ask("deletions", {"path": "/d"}))[0] == 403


async def test_a_large_subtree_is_deleted_in_several_transactions() -> None:
    async with alone(write=True) as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/d", b""), *((f"/d/{number}", b"") for number in range(1200)))
        asked = await operator.got("deletions", {"path": "/d"})
        done = await operator.got(
            "deletions/confirm", {"number": asked["number"], "path": "/d", "count": 1201}
        )
        assert done["deleted"] == 1201
        assert "/d" not in where.server.machine.tree.nodes


@pytest.mark.parametrize(
    ("answers", "status", "words"), [(0, 503, "nothing was changed"), (1, 504, "not known")]
)
async def test_a_server_that_does_not_answer(answers: int, status: int, words: str) -> None:
    async with alone(write=True) as (where, operator):
        with mock.patch("console.local_session._PATIENCE", 0.05):
            where.console._api._make = lambda: _Silent(answers)
            found, body = await operator.ask("create", {"path": "/a"})
        assert (found, words in body["error"]) == (status, True)


class _Silent:
    """A connection that answers the first packets alone, the first of which asks for a session."""

    identities: Identities = ()

    def __init__(self, answers: int) -> None:
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answers:
            self._answers -= 1
            self._transport.write(INT.pack(len(b"session")) + b"session")

    def connection_lost(self, exc: Exception | None) -> None: ...


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
    plain: ssl.SSLContext  # of a client without a certificate
    nameless: ssl.SSLContext  # of one whose certificate has an empty subject
    amy: ssl.SSLContext


@pytest.fixture
def certificates(tmp_path: Path) -> _Certificates:
    authority = Authority(tmp_path)
    server, amy = authority.issue("server", "127.0.0.1"), authority.issue("amy", common_name="amy")
    settings = parse(
        ["--tls-cert", str(server.cert), "--tls-key", str(server.key), "--tls-ca", str(authority.ca)]
    ).tls
    nameless = authority.issue_for("nameless", x509.Name([]))
    return _Certificates(
        TlsContext(replace(settings, client_auth="want")).lasting(),
        authority.client_context(),
        authority.client_context(nameless),
        authority.client_context(amy),
    )


async def test_a_certificate_is_a_login(certificates: _Certificates) -> None:
    async with place(certificates=True, write=True, tls=certificates.server) as where:
        for context in (certificates.plain, certificates.nameless, certificates.amy):
            shown = context is certificates.amy
            connector = aiohttp.TCPConnector(ssl=context)
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
                operator = Operator(session, where.port)
                operator.url = operator.url.replace("http:", "https:")
                assert (await operator.ask("node"))[0] == (200 if shown else 401)
                found = await operator.got("session")
                assert found["login"] is not shown
                if shown:
                    assert found["user"].startswith("CN=amy")
                    await operator.got("create", {"path": "/a"})
                else:
                    assert (await operator.ask("login", {"user": "a", "password": "b"}))[0] == 400
    assert "/a" in where.server.machine.tree.nodes


async def test_the_documents_example_is_what_a_new_tree_answers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    (shown,) = (line.strip() for line in page.splitlines() if line.startswith('    {"path"'))
    async with alone() as (_, operator):
        assert await operator.got("children", path="/", limit=1) == json.loads(shown)
