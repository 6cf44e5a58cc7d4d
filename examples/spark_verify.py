"""Whether two trees are equal, as a DataFrame program, which also runs under Spark Connect.

SPARK_REMOTE=sc://spark:15002 python -m examples.spark_verify /var/lib/zookeeper etcd://etcd-1:2379/zketcd
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline.sources import register

STAT = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "aversion", "owner")
FIELDS = {"data": ("data",), "acl": ("acl",), "counter": ("created",), "stat": STAT}
# What each server has for itself.
OWN = r"^/zookeeper/(config$|quota/.*/zookeeper_stats$)"


def table(spark: SparkSession, name: str) -> DataFrame:
    """The znodes of a data directory, of zk://HOST:PORT, or of etcd://HOST:PORT/PREFIX."""
    if not name.startswith("etcd://"):
        return spark.read.format("zookeeper").load(name)
    etcd, _, prefix = name.removeprefix("etcd://").partition("/")
    return spark.read.format("zketcd").options(etcd=f"http://{etcd}", prefix=f"/{prefix}").load()


def differences(left: DataFrame, right: DataFrame) -> DataFrame:
    """A row for each path that is not on both sides, once and the same, with what differs.

    One aggregation instead of a join: it shuffles once, and sees a path that is twice on one side.
    """
    compared = {
        "data": f.concat(f.md5("data"), f.lit(" of "), f.octet_length("data")),
        "acl": f.coalesce(f.to_json("acl"), f.lit('[{"perms":31,"scheme":"world","id":"anyone"}]')),
    }
    node = f.struct(*(compared.get(name, f.col(name)).alias(name) for of in FIELDS.values() for name in of))
    sides = [
        side.where(~f.col("path").rlike(OWN)).select("path", f.lit(at).alias("at"), node.alias("node"))
        for at, side in enumerate((left, right))
    ]
    paths = sides[0].union(sides[1]).repartition("path").groupBy("path")
    here = [f.col("at") == at for at in (0, 1)]
    counts = [f.count_if(here[at]).alias(name) for at, name in enumerate(("lefts", "rights"))]
    nodes = [f.any_value(f.when(here[at], f.col("node")), True).alias(name) for at, name in enumerate("ab")]
    lefts, rights = f.col("lefts"), f.col("rights")
    kinds = {"missing": rights == 0, "extra": lefts == 0, "duplicate": f.greatest(lefts, rights) > 1}
    for kind, names in FIELDS.items():
        one, other = (f.struct(*(f"{side}.{name}" for name in names)) for side in "ab")
        kinds[kind] = (lefts > 0) & (rights > 0) & ~one.eqNullSafe(other)
    found = f.array_compact(f.array(*(f.when(is_it, f.lit(kind)) for kind, is_it in kinds.items())))
    return paths.agg(*counts, *nodes).select("path", found.alias("kinds"), "a", "b").where("size(kinds) > 0")


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    register(session)
    trees = (table(session, name) for name in sys.argv[1:])
    for row in differences(*trees).orderBy("path").limit(1000).collect():
        print(",".join(row["kinds"]), row["path"])
