"""Snapshots that we write: read back by us, and served by real ZooKeeper 3.9 and 3.8."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from codec import snapshot_file
from lab.servers import ZooKeeperServer
from pipeline.batches import of_rows
from pipeline.sources.zookeeper_sink import TRAILERS, ZooKeeperWriter, acl_number, options_of
from pipeline.table import ZNODES, AclRow, SessionRow, ZnodeRow
from tests.kazoo import kazoo
from tests.pipeline.trees import OPEN, SAMPLES, Seen, digest_of, expected, node, read, without_stats
from tests.table import one_by_one
from zketcd.__main__ import main

ROOT = node("/", 0)


def write(
    folder: Path, parts: list[list[ZnodeRow]], options: dict[str, str] | None = None, overwrite: bool = False
) -> None:
    """What Spark does with a sink, a list of rows for each task."""
    writer = ZooKeeperWriter(options_of(options or {}, str(folder), overwrite), ZNODES.names)
    try:
        messages = [writer.write(of_rows(part)) for part in parts]
    except BaseException:
        writer.abort()
        raise
    writer.commit(messages)


texts = st.text(st.characters(codec="utf-8"), max_size=5)
names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=6)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
zxids = st.integers(0, 1 << 40)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
acls = st.none() | st.lists(st.builds(AclRow, ints, texts, texts), max_size=3).map(tuple)


@st.composite
def trees(draw: st.DrawFn) -> list[ZnodeRow]:
    """A root and some nodes, each with its parents."""
    paths = {"/"}
    for steps in draw(st.lists(st.lists(names, min_size=1, max_size=4), max_size=8)):
        paths |= {"/" + "/".join(steps[:count]) for count in range(1, len(steps) + 1)}
    return [
        ZnodeRow(
            path,
            draw(st.none() | st.binary(max_size=20)),
            draw(acls),
            draw(zxids),
            draw(zxids),
            draw(zxids),
            draw(longs),
            draw(longs),
            draw(ints),
            draw(ints),
            draw(ints),
            draw(longs),
        )
        for path in sorted(paths)
    ]


@pytest.mark.long
@given(
    trees(),
    st.randoms(use_true_random=False),
    st.sampled_from(TRAILERS),
    st.sampled_from(["", "gz", "snappy"]),
    st.lists(st.builds(SessionRow, longs, ints), max_size=3, unique_by=lambda session: session.id),
)
def test_what_is_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    tree: list[ZnodeRow],
    chance: Random,
    trailer: str,
    codec: str,
    sessions: list[SessionRow],
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    parts: list[list[ZnodeRow]] = [[], [], []]
    for row in tree:
        parts[chance.randrange(3)].append(row)
    write(folder, parts, {"trailer": trailer, "compression": codec, "sessions": json.dumps(sessions)})
    found, nodes = read(folder, step=50)
    assert sorted(nodes) == sorted(tree)
    assert sorted(found.sessions) == sorted(sessions)
    newest = max(max(row.czxid, row.mzxid, row.pzxid) for row in tree)
    assert found.last_zxid == newest
    if trailer != "seal" and newest:
        assert found.digest == digest_of(tree)
    assert found.checked.last_zxid == (newest if trailer == "full" else None)
    assert [path.name for path in (folder / "version-2").iterdir()] == [Path(found.snapshot).name]


def test_parents_come_before_their_children(tmp_path: Path) -> None:
    write(tmp_path, [[node("/a/b/c"), node("/a")], [node("/a/b"), ROOT]])
    raw = (tmp_path / "version-2" / "snapshot.1").read_bytes()
    places = [raw.index(b"\0" + bytes((len(path),)) + path) for path in (b"/a", b"/a/b", b"/a/b/c")]
    assert places == sorted(places)


@one_by_one(
    ("rows", "options", "reason"),
    [
        ([node("/a")], {}, "0 rows for /"),
        ([ROOT, ROOT], {}, "2 rows for /"),
        ([ROOT, node("a")], {}, "'a' is no znode's path"),
        ([ROOT, node("/a/")], {}, "'/a/' is no znode's path"),
        ([ROOT, node("/a//b")], {}, "'/a//b' is no znode's path"),
        ([ROOT, node("/a", 9)], {"zxid": "8"}, "zxid is 0x8, but a node has 0x9"),
        ([ROOT], {"trailer": "none"}, "trailer is one of seal, digest, full, not none"),
        ([ROOT], {"compression": "zip"}, "compression is gz or snappy, not zip"),
        ([ROOT], {"sessions": "[1]"}, "sessions is a JSON list of pairs"),
    ],
)
def test_what_no_server_would_take_is_refused(
    tmp_path: Path, rows: list[ZnodeRow], options: dict[str, str], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        write(tmp_path, [rows], options)
    assert list(tmp_path.glob("version-2/*")) == []


def test_a_directory_with_another_tree_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [[ROOT, node("/a", 5)]])
    with pytest.raises(ValueError, match=r"holds snapshot\.5 already"):
        write(tmp_path, [[ROOT, node("/a", 5)]])
    with pytest.raises(ValueError, match=r"holds snapshot\.5 already"):
        write(tmp_path, [[ROOT, node("/a", 6)]], overwrite=True)
    write(tmp_path, [[ROOT, node("/b", 5)]], overwrite=True)
    assert [row.path for row in read(tmp_path)[1]] == ["/", "/b"]
    (tmp_path / "version-2" / "log.6").write_bytes(b"")
    with pytest.raises(ValueError, match=r"holds log\.6 already"):
        write(tmp_path, [[ROOT, node("/b", 5)]], overwrite=True)


def test_acls_have_the_same_number_in_every_task() -> None:
    numbers = {snapshot_file.OPEN_ACL_ID}
    for acl in ((), OPEN, (AclRow(1, "digest", "a:b"),), (AclRow(1, "digest", "a"), AclRow(1, "b", ""))):
        assert acl_number(acl) == acl_number(tuple(acl))
        assert 0 < acl_number(acl) <= 1 << 48
        numbers.add(acl_number(acl))
    assert len(numbers) == 5


# Real servers


@pytest.fixture(scope="module")
def exported(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories with a sample's tree as Spark has written it, one for each form of the file."""
    folder = tmp_path_factory.mktemp("exported")
    source = spark.read.format("zookeeper").option("splitBytes", 20_000)
    sessions = source.option("table", "sessions").load(str(SAMPLES / "zk39-plain")).collect()
    frame = source.option("table", "znodes").load(str(SAMPLES / "zk39-plain")).repartition(3).cache()
    for name, options in FORMS.items():
        sink = frame.write.format("zookeeper").mode("append").options(**options, zxid="0x500000100")
        sink.option("sessions", json.dumps([list(row) for row in sessions])).save(str(folder / name))
    frame.unpersist()
    return folder


FORMS = {
    "plain": {},
    "full": {"trailer": "full", "compression": "gz"},
    "digest": {"trailer": "digest", "compression": "snappy"},
}
PROPERTIES = {
    "zookeeper.extendedTypesEnabled": "true",
    "zookeeper.DigestAuthenticationProvider.superDigest": "super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
}


@pytest.mark.real
@pytest.mark.parametrize(
    ("form", "version"), [("plain", "3.9"), ("full", "3.9"), ("plain", "3.8"), ("digest", "3.8")]
)
def test_real_zookeeper_serves_what_was_written(exported: Path, form: str, version: str) -> None:
    sample = str(SAMPLES / "zk39-plain")
    server = ZooKeeperServer(system_properties=PROPERTIES, version=version)
    shutil.copytree(exported / form / "version-2", server.data_dir / "version-2")
    with server:
        if (form, version) == ("plain", "3.9"):
            where = f"zk://{server.address}"
            assert main(["verify", sample, where, "--auth", "digest:super:secret"]) == 0
            assert main(["verify", where, sample]) == 2  # ACLs forbid us to look
        assert server.version().startswith(version)
        with kazoo(server) as client:
            client.add_auth("digest", "super:secret")
            served = dict(_walk(client, "/"))
            created = client.create("/after")
            zxid = client.exists(created).czxid
        assert "Digests are not matching" not in server.log_text()
    assert without_stats(served) == without_stats(expected("zk39-plain"))
    assert zxid > 0x500000100


def _walk(client: KazooClient, path: str) -> Iterator[tuple[str, Seen]]:
    data, stat = client.get(path)
    acls, _ = client.get_acls(path)
    yield path, Seen(data, tuple(AclRow(acl.perms, acl.id.scheme, acl.id.id) for acl in acls), *stat)
    for name in client.get_children(path):
        yield from _walk(client, path.rstrip("/") + "/" + name)
