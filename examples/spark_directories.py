"""The largest directories of a tree, as a DataFrame program, which also runs under Spark Connect.

SPARK_REMOTE=sc://spark:15002 python -m examples.spark_directories /var/lib/zookeeper
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline.sources import register


def largest(znodes: DataFrame, most: int = 10) -> DataFrame:
    """The longest lists of children, each with the bytes of their names in a reply of getChildren."""
    name = f.substring_index("path", "/", -1)
    above = f.left("path", f.length("path") - f.length(name) - 1)
    return (
        znodes.where("path <> '/'")
        .groupBy(f.greatest(f.lit("/"), above).alias("parent"))
        .agg(f.count("*").alias("children"), f.sum(4 + f.octet_length(name)).alias("bytes of names"))
        .orderBy(f.desc("children"), "parent")
        .limit(most)
    )


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    register(session)
    tree = session.read.format("zookeeper").schema("path string").load(sys.argv[1])
    for row in largest(tree).collect():
        print(row["children"], row["bytes of names"], row["parent"])
