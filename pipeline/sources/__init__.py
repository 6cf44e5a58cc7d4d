"""Spark data sources and sinks."""

from pyspark.sql import SparkSession

from pipeline.sources.zketcd import ZketcdSource

SOURCES = (ZketcdSource,)


def register(spark: SparkSession) -> None:
    """Make the data sources known to a Spark session."""
    for source in SOURCES:
        spark.dataSource.register(source)
