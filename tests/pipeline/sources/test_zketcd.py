"""An etcd prefix as Spark's tables, and a guarded load of one."""

import asyncio
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lab.servers import EtcdServer
from pipeline.etcd.options import Connection
from pipeline.sources.spark import struct_of
from pipeline.sources.zketcd_tree import tree_as_of
from pipeline.table import ZNODES, AclRow, ZnodeRow
from schema.zxids import epoch_at
from tests.pipeline.sources.streams import World

ROWS = [
    ZnodeRow("/", b"", None, 0, 0, 9, 0, 0, 0, 2, 0, 0),
    ZnodeRow("/a", None, None, 1, 2, 8, 5, 6, 7, 300, 8, 0),
    ZnodeRow(
        "/b", b"", (AclRow(31, "digest", "u:p"), AclRow(1, "world", "anyone")), 3, 4, 3, 5, 6, 7, 0, 8, 0
    ),
    *(ZnodeRow(f"/a/n{number:05}", b"%d" % number, None, 5, 6, 5, 1, 2, 0, 0, 0, 0) for number in range(300)),
    ZnodeRow("/zookeeper", b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ZnodeRow("/zookeeper/quota", b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ZnodeRow("/zookeeper/config", b"", (AclRow(1, "world", "anyone"),), 0, 0, 0, 0, 0, 0, 0, -1, 0),
    ZnodeRow("/ttl", b"x", None, 5, 6, 5, 1, 2, 0, 0, 0, -(1 << 56) + 1000),
]


@pytest.fixture
def target(etcd_server: EtcdServer, etcd_prefix: str) -> dict[str, str]:
    return {"etcd": etcd_server.endpoint, "prefix": etcd_prefix}


def read(spark: SparkSession, target: dict[str, str], **options: str) -> list[ZnodeRow]:
    frame = spark.read.format("zketcd").options(**target, **options).load()
    assert frame.schema == struct_of(ZNODES)
    rows = []
    for row in frame.collect():
        fields = row.asDict()
        fields["data"] = None if row.data is None else bytes(row.data)
        fields["acl"] = None if row.acl is None else tuple(AclRow(*entry) for entry in row.acl)
        rows.append(ZnodeRow(**fields))
    return sorted(rows)


def test_what_is_written_is_read(spark: SparkSession, target: dict[str, str]) -> None:
    frame = spark.createDataFrame(ROWS, struct_of(ZNODES))
    frame.repartition(3).write.format("zketcd").options(**target).mode("append").save()
    assert read(spark, target, **{"partition-size": "50"}) == sorted(ROWS)

    with pytest.raises(PySparkException, match="a tree, of 307 znodes at its last snapshot"):
        frame.write.format("zketcd").options(**target).mode("append").save()
    now = epoch_at(time.time())
    frame.write.format("zketcd").options(**target).mode("overwrite").save()
    assert read(spark, target) == sorted(ROWS)
    tree = asyncio.run(tree_as_of(Connection.from_options(target)))
    assert tree.last_zxid > now, "above all that clients have seen"


def test_a_frame_is_the_tree_at_one_position(spark: SparkSession, target: dict[str, str]) -> None:
    """In every scan of every action; and reading writes nothing."""
    world = World(Connection.from_options(target))
    world.create("/one")
    frame = spark.read.format("zketcd").options(**target).load()
    world.create("/two")
    other = frame.alias("other")
    both = frame.alias("one").join(other, F.col("one.path") == F.col("other.path"), "full").collect()
    assert {row[0] for row in both} == {"/", "/one", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}
    later = spark.read.format("zketcd").options(**target).load()
    world.snapshot()
    assert frame.filter("path = '/two'").count() == 0
    assert later.filter("path = '/two'").count() == 1
    assert later.count() == frame.count() + 1


def test_planning_writes_nothing(spark: SparkSession, target: dict[str, str]) -> None:
    """The tree stays until the first task of an overwrite has something to write."""
    frame = spark.createDataFrame(ROWS, struct_of(ZNODES))
    frame.write.format("zketcd").options(**target).mode("append").save()
    wrong = frame.withColumn("path", F.expr("cast(raise_error('this row is wrong') as string)"))
    with pytest.raises(PySparkException, match="this row is wrong"):
        wrong.write.format("zketcd").options(**target).mode("overwrite").save()
    assert read(spark, target) == sorted(ROWS)


def test_a_load_that_fails_is_not_served_and_may_be_repeated(
    spark: SparkSession, target: dict[str, str]
) -> None:
    twice = spark.createDataFrame([*ROWS, ROWS[-1]], struct_of(ZNODES))
    with pytest.raises(PySparkException, match="more than once"):
        twice.write.format("zketcd").options(**target).mode("append").save()
    with pytest.raises(PySparkException, match="not complete"):
        read(spark, target)
    spark.createDataFrame(ROWS, struct_of(ZNODES)).write.format("zketcd").options(**target).mode(
        "append"
    ).save()
    assert read(spark, target) == sorted(ROWS)


@pytest.mark.parametrize(
    ("zxid", "reason"),
    [("0x7fffffff00000000", "there is no epoch of zxids above"), ("abc", "the option zxid must be a number")],
)
def test_a_zxid_that_cannot_be_lets_nothing_go(
    spark: SparkSession, target: dict[str, str], zxid: str, reason: str
) -> None:
    frame = spark.createDataFrame(ROWS[:2], struct_of(ZNODES))
    frame.write.format("zketcd").options(**target).mode("append").save()
    before = read(spark, target)
    with pytest.raises(PySparkException, match=reason):
        frame.write.format("zketcd").options(**target, zxid=zxid).mode("overwrite").save()
    assert read(spark, target) == before
    with pytest.raises(PySparkException, match="partition-size must be above 0"):
        read(spark, target, **{"partition-size": "0"})


def test_a_program_names_a_subtree_and_columns(spark: SparkSession, target: dict[str, str]) -> None:
    frame = spark.createDataFrame(ROWS, struct_of(ZNODES))
    frame.repartition(3).write.format("zketcd").options(**target).mode("append").save()
    world = World(Connection.from_options(target))
    world.create("/a/n00299/new")
    world.create("/a/n00299-1")
    for subtree, expected in (
        ("/a/n00299", ["/a/n00299", "/a/n00299/new"]),
        ("/b", ["/b"]),
        ("/none", []),
        ("/", sorted([*(row.path for row in ROWS), "/a/n00299/new", "/a/n00299-1"])),
    ):
        tree = (
            spark.read.format("zketcd")
            .options(**target, subtree=subtree)
            .schema("owner long, path string")
            .load()
        )
        assert tree.columns == ["owner", "path"]
        assert sorted(row.path for row in tree.collect()) == expected
        assert tree.where(F.col("path") == "/b").count() == ("/b" in expected)
        assert tree.count() == len(expected)
    with pytest.raises(PySparkException, match="no column size bigint, but path string, data binary"):
        spark.read.format("zketcd").options(**target).schema("size long").load().collect()
    with pytest.raises(PySparkException, match="subtree must be the path of a znode"):
        spark.read.format("zketcd").options(**target, subtree="a/").load().collect()
