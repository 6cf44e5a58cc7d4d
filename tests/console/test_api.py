"""What the console's addresses answer about the tree, the clients and the proxies."""

import json
from pathlib import Path
from unittest import mock

import pytest

from codec.jute import Acl
from console import api
from lab.client import packets
from proxy.state.auth.digest import digest_identity
from tests.console.consoles import alone, client_of, create, text

_WEIRD = ["/<img src=x onerror=alert(1)>", "/ä ö", "/a%2Fb", "/q?x=1&y#z", "/'\"`", "/\u202eright"]
_AMY = digest_identity(b"amy:secret")


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
        stat = {"version": 0, "cversion": 1, "dataLength": 8, "numChildren": 1}
        assert found["stat"].items() >= {**stat, "pzxid": zxid, "ephemeralOwner": "0x0"}.items()
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
        assert log["applied"] == where.server.log.applier.position
        assert (log["current"], log["previous"], log["backlog"]) == (None, None, 0)
        proxies = await operator.got("proxies")
        (row,) = proxies["rows"]
        assert (row["self"], row["eldest"], row["sessions"], row["behind"]) == (True, True, 1, 0)
        assert (await operator.got("pending"))["clients"] == 0


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


async def test_the_documents_example_is_what_a_new_tree_answers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    (shown,) = (line.strip() for line in page.splitlines() if line.startswith('    {"path"'))
    async with alone() as (_, operator):
        assert await operator.got("children", path="/", limit=1) == json.loads(shown)
