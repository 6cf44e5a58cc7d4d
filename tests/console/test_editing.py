"""Changes by the console, and what refuses them."""

import asyncio
from typing import Any
from unittest import mock

import pytest

from codec.jute import INT, Acl
from lab.client import packets
from proxy.sasl.options import SaslSettings
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identities
from tests.console.consoles import Operator, alone, client_of, create, place, text

_AMY = digest_identity(b"amy:secret")


async def test_znodes_are_created_changed_and_deleted() -> None:
    async with alone(write=True) as (where, operator):
        nodes = where.server.machine.tree.nodes
        assert await operator.got("create", {"path": "/a", "data": text("1")}) == {"path": "/a"}
        made = await operator.got("create", {"path": "/a/n-", "mode": "sequential"})
        assert made == {"path": "/a/n-0000000000"}
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


async def _confirmed(operator: Operator, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The answer to the confirmation of a deletion as it was asked for."""
    return await operator.ask(
        "deletions/confirm", {name: asked[name] for name in ("number", "path", "count")}
    )


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
            assert (await _confirmed(ben, asked))[0] == 404
        assert "/d" in where.server.machine.tree.nodes


async def test_a_deletion_is_of_what_was_counted() -> None:
    async with alone(write=True) as (where, operator):
        await _subtree(operator, 3)
        asked = await operator.got("deletions", {"path": "/d"})
        await operator.got("delete", {"path": "/d/1"})
        for path, words in (("/d/1", "has other znodes by now"), ("/d/new", "has 4 znodes by now")):
            await operator.got("create", {"path": path})
            status, body = await _confirmed(operator, asked)
            assert (status, words in body["error"]) == (409, True)
            asked = await operator.got("deletions", {"path": "/d"})
        await operator.got("deletions/withdraw", {"number": asked["number"]})
        assert (await operator.got("deletions"))["deletions"] == []
        assert len(where.server.machine.tree.nodes["/d"].children or ()) == 3


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
        status, body = await _confirmed(operator, asked)
        assert (status, body["error"].endswith("0 of 5 znodes were deleted")) == (403, True)
        assert body["error"].startswith("/d/kept/x: ")
        client.send(packets.set_acl(7, "/d/hers", [Acl(31, "digest", _AMY.id)]))
        assert (await client.reply()).err == 0
        for path in ("/d", "/d/hers"):  # the second: nothing comes behind what cannot be listed
            assert (await operator.ask("deletions", {"path": path}))[0] == 403


async def test_a_large_subtree_is_deleted_in_several_transactions() -> None:
    async with alone(write=True) as (where, operator):
        client = await client_of(where.server)
        await create(client, ("/d", b""), *((f"/d/{number}", b"") for number in range(1200)))
        asked = await operator.got("deletions", {"path": "/d"})
        assert await _confirmed(operator, asked) == (200, {"path": "/d", "deleted": 1201})
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
