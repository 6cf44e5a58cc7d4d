"""A look at what is shown, which answers only with what is new; exports, copies and imports of subtrees."""

import json
from typing import Any

from codec import client as zk
from codec.client import delete, packet, set_acl, set_data
from codec.jute import Acl
from console.answers import trees
from console.people.guard import HEADER
from proxy.state.auth.digest import digest_identity
from tests.console.consoles import Operator, Place, alone, answered, create, text
from tests.proxy.test_server import Client

_AMY = digest_identity(b"amy:secret")


async def _look(operator: Operator, *windows: dict[str, Any], node: dict[str, Any] | None = None) -> Any:
    return await operator.got("look", {"windows": list(windows), "node": node})


async def test_a_look_has_only_what_has_changed() -> None:
    async with alone() as (where, operator):
        client = await where.client(("/d", b"0"), ("/d/a", b""), ("/d/b", b""))
        window, node = {"path": "/d"}, {"path": "/d"}
        first = await _look(operator, window, node=node)
        names = [row["name"] for row in first["windows"][0]["children"]]
        assert (names, first["node"]["data"]) == (["a", "b"], text("0"))
        assert abs(first["nowMs"] - where.nodes["/d/a"].mtime) < 60_000
        found: Any = None
        window["mark"], node["mark"] = first["windows"][0]["mark"], first["node"]["mark"]
        again = await _look(operator, window, node=node)
        assert (again["windows"], again["node"]) == ([{"same": True}], {"same": True})
        # Data, a child of a child, an ACL: each shows in the row.
        for change in (
            packet(3, set_data("/d/a", b"new")),
            packet(4, zk.create("/d/b/x")),
            packet(5, set_acl("/d/b", [Acl(31, "digest", _AMY.id)])),
            packet(6, delete("/d/a")),
        ):
            await answered(client, change)
            (found,) = (await _look(operator, window))["windows"]
            assert found["mark"] != window["mark"]
            window["mark"] = found["mark"]
        assert [row["name"] for row in found["children"]] == ["b"]
        assert found["children"][0]["mtime"] is None  # not readable
        found = (await _look(operator, window, node=node))["node"]
        assert found["stat"]["numChildren"] == 1


async def test_a_look_at_what_is_gone_or_hidden_says_so() -> None:
    async with alone() as (where, operator):
        client = await where.client(("/a", b""), ("/h", b""))
        await answered(client, packet(3, set_acl("/h", [Acl(31, "digest", _AMY.id)])))
        found = await _look(
            operator, {"path": "/none"}, {"path": "/h"}, {"path": "/a"}, node={"path": "/none"}
        )
        assert [each.get("status") for each in (*found["windows"], found["node"])] == [404, 403, None, 404]
        wrongs: list[dict[str, Any]] = [
            {"windows": {}},
            {"windows": [1]},
            {"node": []},
            {"windows": [{"path": 1}]},
        ]
        for wrong in wrongs:
            await operator.refused(400, "", "look", wrong)
        await operator.refused(400, "", "look", {"windows": [{"path": "/", "offset": -2}]})
        await operator.refused(400, "", "look", {"windows": [{"path": "/", "from": ["x"]}]})
        for name, value in (
            ("offset", -1.0), ("lead", False), ("lead", 0.0), ("lead", "x"),
            ("limit", True), ("limit", 5.0), ("prefix", []), ("contains", 0),
        ):  # fmt: skip
            await operator.refused(400, name, "look", {"windows": [{"path": "/", name: value}]})
        await operator.refused(400, "100 at most", "look", {"windows": [{"path": "/"}] * 101})


async def test_all_windows_of_a_look_together_are_bounded() -> None:
    async with alone() as (where, operator):
        await where.client(*((f"/{number:03d}", b"") for number in range(300)))
        found = await _look(operator, *({"path": "/", "limit": 300} for _ in range(20)))
        assert sum(len(each["children"]) for each in found["windows"]) <= trees._MOST_ROWS + 20


async def test_long_names_end_an_answer_early() -> None:
    async with alone() as (where, operator):
        await where.client(("/l", b""), *((f"/l/{number:02d}{'n' * 60_000}", b"") for number in range(20)))
        page = await operator.got("children", path="/l", limit=500)
        assert len(page["children"]) == 5
        assert page["next"] == page["children"][-1]["name"]
        found = await operator.got("search", path="/l", text="n")
        assert len(found["paths"]) == 5
        assert found["next"] == found["paths"][-1]
        looked = await _look(operator, *({"path": "/l", "limit": 500} for _ in range(20)))
        assert [len(each["children"]) for each in looked["windows"]] == [5] * 4 + [0] * 16


# -- subtrees ------------------------------------------------------------------------------------------------


async def _export(operator: Operator, path: str) -> list[Any]:
    url = f"{operator.url}api/v1/export"
    async with operator.session.get(url, params={"path": path}) as answer:
        body = await answer.text()
        if answer.status != 200:
            return [answer.status, json.loads(body)]
        assert answer.headers["Content-Disposition"].startswith("attachment")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        return [json.loads(line) for line in body.splitlines()]


async def _filled(where: Place, operator: Operator) -> Client:
    client = await where.client(("/a", b"\r\n\xff"), ("/a/b", b""), ("/a/b/c", b"3"), ("/ab", b"no"))
    await create(client, ("/a/e", b"gone"), flags=1)
    await operator.got("create", {"path": "/a/k", "data": text("4"), "mode": "container"})
    await answered(
        client, packet(9, set_acl("/a/b", [Acl(31, "digest", _AMY.id), Acl(1, "world", "anyone")]))
    )
    return client


async def test_an_export_is_complete_and_comes_back_by_an_import() -> None:
    async with alone(write=True) as (where, operator):
        await _filled(where, operator)
        await operator.got("identities", {"credentials": "amy:secret"})
        head, *rows, tail = await _export(operator, "/a")
        assert (head["path"], head["znodes"], tail) == ("/a", 5, {"complete": True, "znodes": 5})
        assert [row["path"] for row in rows] == ["", "/b", "/b/c", "/e", "/k"]
        assert {row["path"]: row["kind"] for row in rows}["/k"] == "container"
        znodes = [row for row in rows if row["kind"] != "ephemeral"]
        made = await operator.got("import", {"path": "/copy", "znodes": znodes})
        assert made == {"path": "/copy", "created": 4}
        for path in ("", "/b", "/b/c", "/k"):
            one, two = where.nodes[f"/a{path}"], where.nodes[f"/copy{path}"]
            assert (one.data, one.acl, one.owner) == (two.data, two.acl, two.owner)
        # Nothing is overwritten, and one that fails leaves nothing.
        znodes = [znodes[0] | {"path": "/new"}, znodes[1]]
        await operator.refused(409, "already", "import", {"path": "/copy", "znodes": znodes})
        assert "/copy/new" not in where.nodes
        await operator.refused(
            400, "no path", "import", {"path": "/x", "znodes": [{"path": "/../y"}], "acl": "world"}
        )
        await operator.refused(
            400, "kind is", "import", {"path": "/x", "acl": "world", "znodes": [{"kind": "ephemeral"}]}
        )
        for wrong in (
            [],
            "x",
            [1],
            [{"path": "b"}],
            [{"path": "", "data": "!"}],
            [{"acl": [[99, "world", "anyone"]]}],
        ):
            await operator.refused(400, "", "import", {"path": "/x", "znodes": wrong})


async def test_what_a_login_may_not_read_is_neither_exported_nor_copied() -> None:
    async with alone(write=True) as (where, operator):
        client = await _filled(where, operator)
        rows = await _export(operator, "/a")
        assert {row["path"]: row["acl"] for row in rows[1:-1]}["/b"] is None  # it holds a hash
        await operator.refused(403, "passwords", "copy", {"path": "/a", "to": "/x"})
        await operator.refused(
            400, "does not have the ACL", "import", {"path": "/x", "znodes": [rows[2] | {"path": ""}]}
        )
        await answered(client, packet(10, set_acl("/a/b/c", [Acl(31, "digest", _AMY.id)])))  # a leaf
        assert (await _export(operator, "/a"))[0] == 403
        await operator.refused(403, "does not let this login read", "copy", {"path": "/a", "to": "/x"})
        assert "/x" not in where.nodes
        assert (await _export(operator, "/none"))[0] == 404


async def test_a_copy_has_data_acls_and_kinds_and_no_ephemerals() -> None:
    async with alone(write=True) as (where, operator):
        await _filled(where, operator)
        await operator.got("identities", {"credentials": "amy:secret"})
        made = await operator.got("copy", {"path": "/a", "to": "/ab/c"})
        assert made == {"path": "/ab/c", "created": 4, "ephemerals": 1}
        for path in ("", "/b", "/b/c", "/k"):
            one, two = where.nodes[f"/a{path}"], where.nodes[f"/ab/c{path}"]
            assert (one.data, one.acl, one.owner) == (two.data, two.acl, two.owner)
        assert "/ab/c/e" not in where.nodes
        for status, to in ((400, "/a/b/x"), (400, "/a"), (409, "/ab"), (404, "/none/x"), (400, "x")):
            await operator.refused(status, "", "copy", {"path": "/a", "to": to})
        await operator.refused(409, "ephemeral", "copy", {"path": "/a/e", "to": "/x"})


async def test_a_copy_of_many_znodes_takes_several_transactions() -> None:
    async with alone(write=True) as (where, operator):
        await where.client(("/m", b""), *((f"/m/{number:04d}", bytes(1000)) for number in range(700)))
        assert (await operator.got("copy", {"path": "/m", "to": "/n"}))["created"] == 701
        assert len(where.nodes["/n"].children or ()) == 700
        # Nothing that is there is changed: the copy ends where it meets a znode.
        await operator.refused(409, "0 of 701 znodes were created", "copy", {"path": "/m", "to": "/n"})


async def test_a_console_that_only_reads_exports_and_copies_nothing() -> None:
    async with alone() as (where, operator):
        await where.client(("/a", b""))
        await operator.refused(403, "--console-write", "copy", {"path": "/a", "to": "/b"})
        await operator.refused(403, "--console-write", "import", {"path": "/b", "znodes": [{}]})
        assert len(await _export(operator, "/")) == 2 + 2  # without /zookeeper
        operator.headers = {HEADER: "1", "Sec-Fetch-Site": "cross-site"}
        await operator.refused(403, "another site", "export", path="/a")
