"""Sources and targets of tables, each as a plain reader or writer, and the same as data sources of Spark.

zookeeper_files.py a data directory; zookeeper_log.py its logs; zookeeper_sink.py a snapshot to write
zookeeper_wire.py  a running ensemble
zketcd_tree.py     an etcd prefix; zketcd_log.py its log
archive_log.py     an archive of zketcd's log
parquet.py         a table in Parquet files, without Spark
options.py, log_options.py  a program's options for these; selection.py the rows and columns that it asks for
spark.py           any reader or writer, for Spark; spark_parquet.py Parquet at a URL
traffic_views.py   traffic's views, by name
zookeeper.py, zookeeper_stream.py, zketcd.py, zketcd_stream.py, zketcd_archive.py: Spark's formats, for
    programs that call `register`

Only the last four lines import Spark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make the formats known to a session. Its workers must be able to import `pipeline` (`make pyfiles`)."""
    from pipeline.sources.zketcd import ZketcdSource
    from pipeline.sources.zketcd_archive import ZketcdArchiveSource
    from pipeline.sources.zookeeper import ZooKeeperSource

    for source in (ZketcdSource, ZketcdArchiveSource, ZooKeeperSource):
        spark.dataSource.register(source)
