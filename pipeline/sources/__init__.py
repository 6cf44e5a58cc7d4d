"""Spark data sources and sinks, for any Spark program that calls `register(spark)`."""

from pyspark.sql import SparkSession

from pipeline.sources.zketcd import ZketcdSource
from pipeline.sources.zookeeper import ZooKeeperSource

SOURCES = (ZketcdSource, ZooKeeperSource)


def register(spark: SparkSession) -> None:
    """Make the formats known to a session. Its workers must be able to import `pipeline` (`make pyfiles`)."""
    for source in SOURCES:
        spark.dataSource.register(source)
