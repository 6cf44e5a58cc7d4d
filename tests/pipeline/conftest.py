"""What tests of the pipeline share: one small Spark, trees of a real ZooKeeper, a tree in memory."""

from collections.abc import AsyncIterator, Generator, Iterator
from unittest import mock

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.oracle.client import Client
from lab.servers import EtcdServer, ZooKeeperServer
from lab.servers.zookeeper import java_program
from pipeline.spark import session
from proxy.log.upkeep import truncation
from tests.clients.spark import SHORT_LIVED
from tests.pipeline.ensembles import Origin, make_origin, populate, zookeeper
from tests.proxy.log.trees import Tree


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with our data sources, and a server of Spark Connect. Failed tasks are run again."""
    java_program()  # BinaryMissing is a skip
    made = session(
        "tests",
        spark_master="local[2,4]",
        spark_driver_memory="768m",
        spark_sql_shuffle_partitions="4",
        spark_plugins="org.apache.spark.sql.connect.SparkConnectPlugin",
        spark_connect_grpc_binding_address="127.0.0.1",
        spark_connect_grpc_binding_port="0",
        spark_driver_extraJavaOptions=SHORT_LIVED,
    )
    yield made
    made.stop()


def drop_request() -> None:
    """Forget a request to Spark that this thread no longer waits for: the next one would get its answer."""
    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    if gateway is not None and context is not None:
        connection = gateway._gateway_client.get_thread_connection()
        if connection is not None:
            connection.close()
        context.cancelAllJobs()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that took too long was interrupted, perhaps in a request to Spark: others must not fail too."""
    if call.excinfo is not None and call.excinfo.errisinstance(pytest.fail.Exception):
        drop_request()
    return (yield)


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


@pytest.fixture
def options(etcd_server: EtcdServer, etcd_prefix: str) -> list[str]:
    """Where a command finds its tree in etcd."""
    return ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]


@pytest.fixture
def etcd() -> FakeEtcdClient:
    """An etcd in memory."""
    return FakeEtcdClient(FakeEtcd())


@pytest.fixture
async def tree(etcd: FakeEtcdClient) -> AsyncIterator[Tree]:
    """A tree in memory with two proxies, whose log is truncated at once."""
    tree = await Tree(etcd).make()
    await tree.come("a", "b")
    with mock.patch.object(truncation, "_PAUSE", 0):
        yield tree
