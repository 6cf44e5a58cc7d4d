"""`GET /tree` and `GET /history`: read as pandas and pyarrow read them."""

import base64
import io
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from archive.past import query
from codec.client import set_acl
from codec.jute import Acl
from console.people.passwords import line, make
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.ports import free_port
from proxy.state.auth.digest import digest_identity

pytestmark = pytest.mark.real


class World(NamedTuple):
    """A served tree, and where its tables are."""

    client: Client
    url: str
    users: str  # of a proxy with logins

    def get(self, path: str, *, base: str = "", authorization: str = "") -> tuple[int, bytes]:
        """Status and body."""
        asked = urllib.request.Request((base or self.url) + path)
        if authorization:
            asked.add_header("Authorization", "Basic " + base64.b64encode(authorization.encode()).decode())
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def tree(self, query: str) -> list[dict[str, object]]:
        """The rows."""
        status, body = self.get(f"/tree?{query}")
        assert status == 200, body
        return [json.loads(row) for row in body.splitlines()]


@pytest.fixture
def world(etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path) -> Iterator[World]:
    ports = free_port(), free_port()
    users = tmp_path / "users"
    users.write_text(line("ann", make("secret-word")) + "\n")
    archive = ["--archive", str(tmp_path / "archive")]

    def server(port: int, *arguments: str) -> ZketcdServer:
        address = f"127.0.0.1:{port}"
        return ZketcdServer(
            etcd_server.endpoint, prefix=etcd_prefix, admin_listen=address, arguments=[*archive, *arguments]
        )

    with (
        server(ports[0]) as first,
        server(ports[1], "--console-users", str(users)),
        Client(first.port) as client,
    ):
        wait_until((tmp_path / "archive").is_dir, "the archive begins")
        yield World(client, *(f"http://127.0.0.1:{port}" for port in ports))


def test_the_tree_and_its_history_as_tables(world: World) -> None:
    import pandas  # a second, in each process that lists all tests

    client = world.client
    client.create("/app", b'text, "quoted"\n')
    client.create("/app/binary", b"\xff\x00")
    client.create("/app/secret", b"hidden")
    client.create("/app/secret/below")
    client.create("/apples")
    then = client.zxid
    client.call(set_acl("/app/secret", (Acl(31, "digest", "x:y"),)))
    client.write("/app", b"now")

    rows = world.tree("path=/app")
    assert [row["path"] for row in rows] == ["/app", "/app/binary", "/app/secret"]
    assert [(row["data"], row["data_base64"]) for row in rows] == [
        ("now", None),
        (None, "/wA="),
        (None, None),
    ]
    assert (rows[0]["version"], rows[0]["num_children"], rows[2]["readable"]) == (1, 2, False)
    stat = client.stat("/app")
    assert stat is not None
    assert (rows[0]["mzxid"], rows[0]["mtime"], rows[0]["cversion"]) == (
        stat.mzxid,
        stat.mtime,
        stat.cversion,
    )

    def archived() -> bool:
        return world.get(f"/tree?path=/app&at=0x{then:x}")[0] == 200

    wait_until(archived, "the moment is archived", timeout=60, interval=0.5)
    past = world.tree(f"path=/app&at=0x{then:x}")
    assert [(row["path"], row["data"]) for row in past] == [
        ("/app", 'text, "quoted"\n'),
        ("/app/binary", None),
        ("/app/secret", "hidden"),
        ("/app/secret/below", ""),
    ]
    table = pandas.read_csv(f"{world.url}/tree?path=/app&format=csv&at=0x{then:x}")
    assert list(table.path) == [row["path"] for row in past]
    assert table.data[0] == 'text, "quoted"\n'
    frame = pandas.read_parquet(io.BytesIO(world.get("/tree?path=/app&format=parquet")[1]))
    assert list(frame.data) == [b"now", b"\xff\x00", None]
    assert str(frame.mtime.dtype) == "datetime64[ms, UTC]"
    assert [each if each is None else list(each) for each in frame.acl] == [
        ["world:anyone:rwcda"],
        ["world:anyone:rwcda"],
        None,
    ]
    history = pandas.read_json(f"{world.url}/history?path=/app&recursive=1", lines=True)
    changes = list(zip(history.path, history.change, strict=True))
    assert changes[0] == ("/app", "created")
    assert ("/apples", "created") not in changes


def test_the_history_shows_no_hashes_and_nothing_of_znodes_that_may_not_be_read(world: World) -> None:
    client = world.client
    amy = digest_identity(b"amy:secret")
    client.prove("digest", b"amy:secret")
    client.create("/app")
    client.create("/app/hers")
    client.create("/app/hers/below")
    client.call(set_acl("/app/hers", (Acl(31, *amy),)))
    client.create("/app/last")

    def rows(path: str) -> list[dict[str, Any]]:
        status, body = world.get(f"/history?path={path}&recursive=1")
        assert status == 200, body
        assert amy.id.encode() not in body
        return [json.loads(row) for row in body.splitlines()]

    def archived() -> bool:
        status, body = world.get("/history?path=/app/last")
        return status == 200 and body != b""

    wait_until(archived, "all is archived", timeout=60, interval=0.5)
    found = rows("/app")
    assert [row["path"] for row in found] == ["/app", "/app/last"]
    assert found[0]["identities"] == ["digest:amy", "ip:127.0.0.1"]
    for path in ("/app/hers", "/app/hers/below", "/app/hers/gone"):
        status, body = world.get(f"/history?path={path}")
        assert (status, json.loads(body)["error"].partition(" does not")[0]) == (
            403,
            f"the ACL of {path} or of a znode above it",
        )


_WRONG = [
    ("/tree?path=app", 400, "'app' is no path of a node"),
    ("/tree?path=/none", 404, "there is no znode /none"),
    ("/tree?format=xml", 400, "it is one of jsonl, csv, parquet"),
    ("/tree?pat=/app", 400, "unknown parameter 'pat': /tree has at, format, path"),
    ("/tree?at=soon", 400, "'soon' is no moment"),
    ("/history?since=soon", 400, "'soon' is no moment"),
]


def test_wrong_questions_and_who_may_ask(world: World) -> None:
    for path, status, error in _WRONG:
        found, body = world.get(path)
        assert (found, error in json.loads(body)["error"]) == (status, True), body
    assert world.get("/tree", base=world.users)[0] == 401
    assert world.get("/tree", base=world.users, authorization="ann:wrong-word")[0] == 401
    assert world.get("/tree", base=world.users, authorization="ann:secret-word")[0] == 200
    asked = urllib.request.Request(f"{world.url}/tree", headers={"Sec-Fetch-Site": "cross-site"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(asked)


def test_without_pyarrow_there_is_no_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "archive.past.parquet", None)
    with pytest.raises(Exception, match=r"format=parquet.*pipeline-small"):
        next(query.answer({"format": "parquet"}))


def test_clickhouse_reads_the_tree(world: World) -> None:
    import chdb  # slow

    world.client.create("/clickhouse", b"x")
    world.client.create("/clickhouse/tables")
    answered = chdb.query(  # type: ignore[no-untyped-call]
        f"SELECT path, length(data), fromUnixTimestamp64Milli(mtime) > '2020-01-01 00:00:00' FROM"
        f" url('{world.url}/tree?path=/clickhouse&format=jsonl', JSONEachRow) ORDER BY path"
    )
    assert str(answered).split() == ['"/clickhouse",1,1', '"/clickhouse/tables",0,1']
