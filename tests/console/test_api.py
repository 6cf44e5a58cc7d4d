"""What the console's addresses answer about the tree, the clients and the proxies."""

import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from codec import client as zk
from codec.client import get, packet, set_acl
from codec.jute import Acl
from codec.longs import hex64
from console.answers import trees
from console.answers.past import ArchivePlace
from console.http import ConsoleSettings
from proxy.admin.facts import Facts
from proxy.state.auth.digest import digest_identity
from serve.admin_port import console_of
from tests.console.consoles import ASSETS, alone, answered, create, place, text

_WEIRD = ["/<img src=x onerror=alert(1)>", "/ä ö", "/a%2Fb", "/q?x=1&y#z", "/'\"`", "/\u202eright"]
_AMY = digest_identity(b"amy:secret")


async def test_a_znode() -> None:
    async with alone() as (where, operator):
        await where.client(("/a", b'{"x": 1}'), ("/a/b", b"\xff\x00"))
        found = await operator.got("node", path="/a")
        assert found["data"] == text('{"x": 1}')
        assert (found["kind"], found["truncated"]) == ("persistent", False)
        assert found["acl"] == [
            {"scheme": "world", "id": "anyone", "permissions": ["read", "write", "create", "delete", "admin"]}
        ]
        stat = {"version": 0, "cversion": 1, "dataLength": 8, "numChildren": 1, "ephemeralOwner": "0x0"}
        stat["pzxid"] = f"0x{where.server.machine.zxid:x}"
        assert found["stat"].items() >= stat.items()
        assert (await operator.got("node", path="/a/b"))["data"] == text(b"\xff\x00")
        await operator.refused(404, "", "node", path="/none")


async def test_odd_paths_are_found_as_they_are() -> None:
    async with alone() as (where, operator):
        await where.client(*((path, path.encode()) for path in _WEIRD))
        children = (await operator.got("children", path="/"))["children"]
        assert [row["name"] for row in children] == sorted([*(path[1:] for path in _WEIRD), "zookeeper"])
        for path in _WEIRD:
            assert (await operator.got("node", path=path))["data"] == text(path)
            assert (await operator.got("search", text=path[1:]))["paths"] == [path]


async def test_large_data_are_shown_in_part_and_can_be_downloaded() -> None:
    content = bytes(range(256)) * 4000
    async with alone() as (where, operator):
        await where.client(("/large", content))
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
        names = [f"n{number:03d}" for number in range(250)]
        await where.client(("/d", b""), *((f"/d/{name}", b"") for name in names))
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
        paths = [f"/d/{name}/x" for name in "abcdef"]
        await where.client(*((path, b"") for path in ("/d", *(path[:-2] for path in paths), *paths)))
        with mock.patch.object(trees, "_MOST_VISITED", 4):
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
        client = await where.client(("/hers", b"data"), ("/hers/below", b""))
        acl = [Acl(31, "digest", _AMY.id), Acl(8, "world", "anyone")]
        await answered(client, packet(3, set_acl("/hers", acl)))
        for identities in (None, "amy:wrong", "ben:secret"):
            if identities:
                await operator.got("identities", {"credentials": identities})
            for name in ("node", "children"):
                await operator.refused(403, "add an identity", name, path="/hers")
            await operator.refused(403, "", "data", path="/hers")
            assert (await operator.got("search", text="hers"))["paths"] == ["/hers"]
            (row,) = (await operator.got("children", path="/", prefix="h"))["children"]
            assert (row.pop("name"), row.pop("readable")) == ("hers", False)
            assert set(row.values()) == {None}
        answer = await operator.got("identities", {"credentials": "amy:secret"})
        assert answer == {"identities": ["digest:amy", "digest:ben", "digest:amy"]}
        found = await operator.got("node", path="/hers")
        assert (found["data"], found["acl"][0]["id"]) == (text("data"), _AMY.id)
        assert (await operator.got("search", text="hers"))["paths"] == ["/hers", "/hers/below"]
        await operator.got("identities/forget", {})
        await operator.refused(403, "", "node", path="/hers")
        # Password hashes are only for users that may set the ACL.
        readable = [Acl(31, "digest", _AMY.id), Acl(1, "world", "anyone")]
        await answered(client, packet(4, zk.create("/shared")), packet(5, set_acl("/shared", readable)))
        assert (await operator.got("node", path="/shared"))["acl"][0]["id"] == "amy:x"


# -- clients and the proxy -----------------------------------------------------------------------------------


async def test_sessions_with_their_ephemerals_and_watches() -> None:
    async with alone() as (where, operator):
        clients = [await where.client(("/e", b""), flags=1), await where.client(), await where.client()]
        await answered(clients[0], packet(2, get("/e", watch=True)))
        first = await operator.got("sessions", limit=2)
        second = await operator.got("sessions", limit=2, after=first["next"])
        assert (first["total"], second["next"]) == (3, None)
        rows = {row["id"]: row for row in (*first["sessions"], *second["sessions"])}
        own, *_ = ids = [f"0x{client.session.session:x}" for client in clients]
        assert set(rows) == set(ids)
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
        await operator.refused(404, "", "sessions/one", id="0x1")


async def test_sessions_are_sorted_and_filtered() -> None:
    async with alone() as (where, operator):
        clients = [await where.client() for _ in range(5)]
        for place, client in enumerate(clients):
            await create(client, *((f"/{place}-{number}", b"") for number in range(place)), flags=1)
        ids = [f"0x{client.session.session:x}" for client in clients]

        async def found(**query: Any) -> list[int]:
            rows = (await operator.got("sessions", **query))["sessions"]
            return [ids.index(row["id"]) for row in rows]

        assert await found(sort="ephemerals", order="down") == [4, 3, 2, 1, 0]
        assert await found(sort="ephemerals", order="down", offset=1, limit=2) == [3, 2]
        by_id = await found(sort="id", order="down")
        assert [int(ids[place], 16) for place in by_id] == sorted(
            (int(each, 16) for each in ids), reverse=True
        )
        for sort in ("client", "proxy", "timeout", "watches", "waiting"):
            assert sorted(await found(sort=sort)) == [0, 1, 2, 3, 4]
        assert await found(text=ids[3]) == [3]
        own = (await operator.got("sessions", text=ids[2]))["sessions"][0]["client"]
        assert await found(text=own) == [2]
        page = await operator.got("sessions", text="nothing has this")
        assert (page["matching"], page["total"], page["sessions"]) == (0, 5, [])
        await operator.refused(400, "sort is one of", "sessions", sort="size")


async def test_traffic_log_and_proxies() -> None:
    async with alone() as (where, operator):
        client = await where.client(("/a", b""))
        await answered(client, packet(2, get("/a")), packet(3, get("/a")))
        reads = (await operator.got("traffic"))["operations"]["get_data"]
        assert (reads["count"], reads["update"]) == (2, False)
        assert sum(count for _, count in reads["buckets"]) == 2
        log = await operator.got("log")
        assert log["applied"] == where.server.log.applier.position
        assert (log["current"], log["previous"], log["backlog"]) == (None, None, 0)
        (row,) = (await operator.got("proxies"))["rows"]
        assert (row["self"], row["eldest"], row["sessions"], row["behind"]) == (True, True, 1, 0)
        assert (await operator.got("pending"))["clients"] == 0


async def test_the_list_of_proxies_says_how_far_a_copy_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async with alone() as (_, operator):
        assert (await operator.got("proxies"))["copy"] is None
        for found, shown in (
            ({"copy_zxid": 5}, {"zxid": "0x5", "behind": None, "lagMs": None}),
            (
                {"copy_zxid": 5, "copy_behind": 7, "copy_lag_ms": 2500},
                {"zxid": "0x5", "behind": 7, "lagMs": 2500},
            ),
        ):
            monkeypatch.setattr(Facts, "copy", lambda _facts, found=found: found)
            assert (await operator.got("proxies"))["copy"] == shown


_QUERIES: list[tuple[str, dict[str, str], int]] = [
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
]


async def test_bad_queries() -> None:
    async with alone() as (_, operator):
        for name, query, status in _QUERIES:
            found, body = await operator.ask(name, None, **query)
            assert (found, "error" in body) == (status, status != 200), (name, query, body)


async def test_the_documents_example_is_what_a_new_tree_answers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    (shown,) = (line.strip() for line in page.splitlines() if line.startswith('    {"path"'))
    async with alone() as (_, operator):
        assert await operator.got("children", path="/", limit=1) == json.loads(shown)


async def test_the_document_lists_all_addresses() -> None:
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    settings = ConsoleSettings(
        {}, certificates=False, write=True, assets=ASSETS, most_bytes=1, archive=ArchivePlace("")
    )
    async with place() as where:
        router = console_of(where.server, settings).application.router
    assert set(re.findall(r"`(GET|POST)\s+([a-z/]+)`", page)) == {
        (route.method, resource.canonical.removeprefix("/api/v1/"))
        for resource in router.resources()
        for route in resource
        if resource.canonical.startswith("/api/") and route.method != "HEAD"
    }


async def test_sessions_are_ended_by_those_who_may_write() -> None:
    async with alone(write=True) as (where, operator):
        client = await where.client(("/e", b""))
        session = hex64(client.session.session)
        await operator.refused(404, "no such session", "sessions/end", {"id": "0x1"})
        assert await operator.got("sessions/end", {"id": session}) == {"id": session}
        assert client.session.session not in where.server.machine.sessions
    async with alone() as (_, operator):
        await operator.refused(403, "only reads", "sessions/end", {"id": session})
