"""One small Spark for all tests of the pipeline: starting it costs more than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lab.servers import ZooKeeperServer
from lab.servers.zookeeper import java_program
from pipeline.spark import session
from tests.pipeline.ensembles import Client, Origin, make_origin, populate, zookeeper


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with our data sources. Its tasks are run again where they fail."""
    java_program()  # BinaryMissing is a skip
    made = session(
        "tests",
        spark_master="local[2,4]",
        spark_driver_memory="768m",
        spark_sql_shuffle_partitions="4",
        spark_driver_extraJavaOptions="-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """What a real ZooKeeper has left behind; not to be changed."""
    return make_origin(tmp_path_factory.mktemp("origin"))


@pytest.fixture(scope="session")
def live_server() -> Iterator[ZooKeeperServer]:
    """A running ZooKeeper with one of everything."""
    with zookeeper() as server:
        client = Client(server.port)
        populate(client)
        client.close()
        yield server
