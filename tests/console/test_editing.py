"""Changes by the console, and what refuses them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from codec.client import packet, set_acl
from codec.jute import INT, Acl
from proxy.frontend.connection import Connection
from proxy.sasl.options import SaslSettings
from proxy.state.auth.digest import digest_identity
from tests.console.consoles import Operator, alone, amy_and_ben, answered, text

_AMY = digest_identity(b"amy:secret")


async def test_znodes_are_created_changed_and_deleted() -> None:
    async with alone(write=True) as (where, operator):
        assert await operator.got("create", {"path": "/a", "data": text("1")}) == {"path": "/a"}
        made = await operator.got("create", {"path": "/a/n-", "mode": "sequential"})
        assert made == {"path": "/a/n-0000000000"}
        await operator.got("create", {"path": "/a/c", "mode": "container"})
        await operator.got("create", {"path": "/a/t", "mode": "ttl", "ttl": 60_000})
        kinds = {row["name"]: row["kind"] for row in (await operator.got("children", path="/a"))["children"]}
        assert kinds == {"c": "container", "n-0000000000": "persistent", "t": "ttl"}
        assert (await operator.got("node", path="/a/t"))["ttl"] == 60_000
        await operator.got("set", {"path": "/a", "data": text(b"\0\xff"), "version": 0})
        assert where.nodes["/a"].data == b"\0\xff"
        await operator.got("delete", {"path": "/a/c", "version": 0})
        assert "/a/c" not in where.nodes
        assert not where.server.machine.sessions  # each change has ended its session
        assert len(where.server.connections) == 0


async def test_refusals_are_told_plainly() -> None:
    async with alone(write=True) as (_, operator):
        for path in ("/a", "/a/b"):
            await operator.got("create", {"path": path})
        refusals: tuple[tuple[int, str, str, dict[str, Any]], ...] = (
            (409, "already", "create", {"path": "/a"}),
            (404, "no such znode", "create", {"path": "/none/x"}),
            (400, "mode is one of", "create", {"path": "/x", "mode": "ephemeral"}),
            (400, "ttl is in milliseconds", "create", {"path": "/x", "mode": "ttl"}),
            (400, "add one first", "create", {"path": "/x", "acl": "creator"}),
            (400, "no path", "create", {"path": "/x/"}),
            (400, "no path", "create", {"path": "//", "mode": "sequential"}),
            (409, "another version", "set", {"path": "/a", "data": "", "version": 7}),
            (409, "has children", "delete", {"path": "/a"}),
            (400, "not allowed", "delete", {"path": "/zookeeper"}),
            (404, "no such znode", "delete", {"path": "/none"}),
            *((400, "", "deletions", {"path": path}) for path in ("/", "/zookeeper", "/zookeeper/quota")),
            (404, "", "deletions", {"path": "/x"}),
        )
        for status, words, name, values in refusals:
            await operator.refused(status, words, name, values)


async def test_changes_obey_acls_and_the_audit_log_names_the_user() -> None:
    lines: list[str] = []
    with mock.patch("proxy.support.logs.audit.info", side_effect=lambda _form, line: lines.append(line)):
        async with amy_and_ben(audit_log="-") as (_, amy, ben):
            await amy.got("identities", {"credentials": "joe:secret"})
            await amy.got("create", {"path": "/a", "acl": "creator"})
            await ben.refused(403, "", "set", {"path": "/a", "data": text("x")})
            await ben.refused(403, "", "node", path="/a")
            await amy.got("set", {"path": "/a", "data": text("y")})
            assert (await amy.got("node", path="/a"))["acl"][0]["id"].startswith("joe:")
    changes = [dict(pair.split("=", 1) for pair in line.split("\t")) for line in lines if "ip=" in line]
    assert [tuple(each[name] for name in ("user", "operation", "znode", "result")) for each in changes] == [
        ("joe,console:amy", "create", "/a", "success"),
        ("console:ben", "setData", "/a", "failure"),
        ("joe,console:amy", "setData", "/a", "success"),
    ]
    assert {each["ip"] for each in changes} == {"127.0.0.1"}


async def test_quotas_bind_the_console() -> None:
    async with alone(write=True, enforce_quota=True) as (where, operator):
        await where.client(
            ("/q", b""),
            ("/zookeeper/quota/q", b""),
            ("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1;byteHardLimit=4"),
            ("/zookeeper/quota/q/zookeeper_stats", b"count=1,bytes=0"),
        )
        await operator.refused(409, "quota", "set", {"path": "/q", "data": text("too long")})


async def test_a_change_without_a_session_is_known_not_to_be_made() -> None:
    async with alone(write=True, max_client_connections=1) as (where, operator):
        await where.client()
        await operator.refused(503, "nothing was changed", "create", {"path": "/a"})


async def test_schemes_that_are_enforced_bind_the_console() -> None:
    async with alone(write=True, sasl=SaslSettings(enforced=("digest",))) as (_, operator):
        await operator.refused(403, "--enforce-auth-schemes", "create", {"path": "/a"})
        await operator.got("identities", {"credentials": "amy:secret"})
        await operator.got("create", {"path": "/a"})


async def _subtree(operator: Operator, count: int) -> None:
    await operator.got("create", {"path": "/d"})
    for number in range(count - 1):
        await operator.got("create", {"path": f"/d/{number}"})


def _confirmation(asked: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """That of a deletion as it was asked for."""
    return {**{name: asked[name] for name in ("number", "path", "count")}, **changes}


async def test_a_subtree_is_deleted_when_a_second_user_confirms() -> None:
    async with amy_and_ben() as (where, amy, ben):
        await _subtree(amy, 4)
        asked = await amy.got("deletions", {"path": "/d"})
        assert (asked["count"], asked["user"], asked["mayConfirm"]) == (4, "amy", False)
        await amy.refused(403, "another user", "deletions/confirm", _confirmation(asked))
        for wrong in ({"count": 3}, {"path": "/"}):
            await ben.refused(403, "", "deletions/confirm", _confirmation(asked, **wrong))
        assert [each["mayConfirm"] for each in (await ben.got("deletions"))["deletions"]] == [True]
        deleted = await ben.got("deletions/confirm", _confirmation(asked))
        assert deleted == {"path": "/d", "deleted": 4}
        assert "/d" not in where.nodes
        await ben.refused(404, "", "deletions/confirm", _confirmation(asked))
        assert (await ben.got("deletions"))["deletions"] == []


async def test_a_deletion_is_withdrawn_when_its_user_is_nobody_any_more() -> None:
    async with amy_and_ben() as (where, amy, ben):
        await _subtree(amy, 3)
        for farewell in ("identities/forget", "logout"):
            asked = await amy.got("deletions", {"path": "/d"})
            assert len((await ben.got("deletions"))["deletions"]) == 1
            await amy.got(farewell, {})
            assert (await ben.got("deletions"))["deletions"] == []
            await ben.refused(404, "", "deletions/confirm", _confirmation(asked))
        assert "/d" in where.nodes


async def test_a_deletion_is_of_what_was_counted() -> None:
    async with alone(write=True) as (where, operator):
        await _subtree(operator, 3)
        asked = await operator.got("deletions", {"path": "/d"})
        await operator.got("delete", {"path": "/d/1"})
        for path, words in (("/d/1", "has other znodes by now"), ("/d/new", "has 4 znodes by now")):
            await operator.got("create", {"path": path})
            await operator.refused(409, words, "deletions/confirm", _confirmation(asked))
            asked = await operator.got("deletions", {"path": "/d"})
        await operator.got("deletions/withdraw", {"number": asked["number"]})
        assert (await operator.got("deletions"))["deletions"] == []
        assert len(where.nodes["/d"].children or ()) == 3


async def test_a_deletion_of_what_cannot_be_listed_or_deleted_is_refused() -> None:
    async with alone(write=True) as (where, operator):
        paths = ("/d", "/d/hers", "/d/hers/x", "/d/kept", "/d/kept/x")
        client = await where.client(*((path, b"") for path in paths))
        await answered(client, packet(6, set_acl("/d/kept", [Acl(1, "world", "anyone")])))
        asked = await operator.got("deletions", {"path": "/d"})
        status, body = await operator.ask("deletions/confirm", _confirmation(asked))
        assert (status, body["error"].endswith("0 of 5 znodes were deleted")) == (403, True)
        assert body["error"].startswith("/d/kept/x: ")
        await answered(client, packet(7, set_acl("/d/hers", [Acl(31, "digest", _AMY.id)])))
        for path in ("/d", "/d/hers"):  # the second: nothing comes behind what cannot be listed
            await operator.refused(403, "", "deletions", {"path": path})


async def test_a_large_subtree_is_deleted_in_several_transactions() -> None:
    async with alone(write=True) as (where, operator):
        await where.client(("/d", b""), *((f"/d/{number}", b"") for number in range(1200)))
        asked = await operator.got("deletions", {"path": "/d"})
        deleted = await operator.got("deletions/confirm", _confirmation(asked))
        assert deleted == {"path": "/d", "deleted": 1201}
        assert "/d" not in where.nodes


@pytest.mark.parametrize(
    ("answers", "status", "words"), [(0, 503, "nothing was changed"), (1, 504, "not known")]
)
async def test_a_server_that_does_not_answer(answers: int, status: int, words: str) -> None:
    async with alone(write=True) as (where, operator):
        with mock.patch("console.sessions.local_session._TIMEOUT", 0.05):
            where.console.api.changes._make = lambda: cast(Connection, _Silent(answers))
            await operator.refused(status, words, "create", {"path": "/a"})


class _Silent:
    """A connection that answers the first packets alone, the first of which asks for a session."""

    def __init__(self, answers: int) -> None:
        self.identity = SimpleNamespace(identities=())
        self.services = SimpleNamespace(max_frame=1 << 20)
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answers:
            self._answers -= 1
            self._transport.write(INT.pack(len(b"session")) + b"session")

    def connection_lost(self, exc: Exception | None) -> None: ...
