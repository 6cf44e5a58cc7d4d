"""ClickHouse servers 18.16 of Debian 12 on the loopback interface, coordinating through given endpoints.

Here: configuration, starting, and queries over HTTP. Not here: what a test asserts.
"""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode

from lab.servers.ports import free_port
from lab.servers.process import REPOSITORY, BinaryMissing, ServerProcess

CLUSTER = "pair"

# How many entries the queue of ON CLUSTER queries keeps. It is cleaned whenever another one comes.
QUEUE_LIMIT = 10

# Put there by tools/fetch_debs.py: the libraries are those of Debian 12, on every system.
_INSTALLED = REPOSITORY / ".cache" / "clickhouse-18.16"

# What the thread of ON CLUSTER queries logs, at level debug, before it looks for the first.
_REACHED_ZOOKEEPER = "DDLWorker: Processing tasks"

# ClickHouse gives up a request to ZooKeeper after 10 s; a quorum insert waits for the other replica.
_QUERY_TIMEOUT_S = 60.0

_USERS = """<yandex>
    <profiles><default>
        <max_memory_usage>500000000</max_memory_usage>
        <background_pool_size>4</background_pool_size>
        <log_queries>0</log_queries>
        <load_balancing>in_order</load_balancing>
    </default></profiles>
    <users><default>
        <password></password>
        <networks><ip>127.0.0.1</ip></networks>
        <profile>default</profile>
        <quota>default</quota>
    </default></users>
    <quotas><default></default></quotas>
</yandex>
"""

_CONFIGURATION = """<yandex>
    <logger><level>debug</level><console>1</console></logger>
    <listen_host>127.0.0.1</listen_host>
    <http_port>{http_port}</http_port>
    <tcp_port>{tcp_port}</tcp_port>
    <interserver_http_host>127.0.0.1</interserver_http_host>
    <interserver_http_port>{interserver_port}</interserver_http_port>
    <path>{folder}/</path>
    <tmp_path>{folder}/tmp/</tmp_path>
    <format_schema_path>{folder}/format_schemas/</format_schema_path>
    <users_config>{users}</users_config>
    <default_profile>default</default_profile>
    <default_database>default</default_database>
    <timezone>UTC</timezone>
    <mark_cache_size>16777216</mark_cache_size>
    <uncompressed_cache_size>0</uncompressed_cache_size>
    <zookeeper>
        <node index="1"><host>127.0.0.1</host><port>{zookeeper_port}</port></node>
        <session_timeout_ms>{session_timeout_ms}</session_timeout_ms>
    </zookeeper>
    <macros><shard>1</shard><replica>{replica}</replica></macros>
    <remote_servers>{clusters}</remote_servers>
    <merge_tree>
        <!-- Look for an expired session every second, not every minute; clean up within the test. -->
        <zookeeper_session_expiration_check_period>1</zookeeper_session_expiration_check_period>
        <cleanup_delay_period>2</cleanup_delay_period>
        <cleanup_delay_period_random_add>0</cleanup_delay_period_random_add>
        <old_parts_lifetime>5</old_parts_lifetime>
        <!-- One replica writes on while the other waits for its proxy: its retry must still be known. -->
        <replicated_deduplication_window>10000</replicated_deduplication_window>
    </merge_tree>
    <distributed_ddl>
        <path>/clickhouse/task_queue/ddl</path>
        <max_tasks_in_queue>{queue_limit}</max_tasks_in_queue>
        <cleanup_delay_period>0</cleanup_delay_period>
    </distributed_ddl>
    <!-- Of queries with the setting log_queries = 1. -->
    <query_log><database>system</database><table>query_log</table></query_log>
</yandex>
"""

_CLUSTER = "<{name}><shard><internal_replication>true</internal_replication>{replicas}</shard></{name}>"
_REPLICA = "<replica><host>127.0.0.1</host><port>{port}</port></replica>"


class QueryRefused(Exception):
    """ClickHouse answered a query with an error; the message is ClickHouse's."""


class ClickHouseServer(ServerProcess):
    """One replica. `port` is the HTTP port. Give all servers of a cluster to `join` before starting them."""

    kind = "clickhouse"

    def __init__(self, zookeeper_port: int, *, replica: str, session_timeout_ms: int = 6000) -> None:
        super().__init__()
        self.tcp_port = free_port()
        self.replica = replica
        self._interserver_port = free_port()
        self._zookeeper_port = zookeeper_port
        self._session_timeout_ms = session_timeout_ms
        self._clusters = ""

    def join(self, servers: Sequence["ClickHouseServer"]) -> None:
        """Make `servers` (this one among them) the replicas of the cluster named CLUSTER.

        Each of them is also a cluster of its own, with the name of the replica.
        """
        clusters = {CLUSTER: servers, **{server.replica: [server] for server in servers}}
        self._clusters = "".join(
            _CLUSTER.format(
                name=name, replicas="".join(_REPLICA.format(port=member.tcp_port) for member in members)
            )
            for name, members in clusters.items()
        )

    def command(self) -> Sequence[str]:
        """The command line; writes the configuration that it names."""
        self.data_dir.mkdir(exist_ok=True)
        users = self._write("users.xml", _USERS)
        configuration = self._write(
            "config.xml",
            _CONFIGURATION.format(
                http_port=self.port,
                tcp_port=self.tcp_port,
                interserver_port=self._interserver_port,
                folder=self.data_dir,
                users=users,
                zookeeper_port=self._zookeeper_port,
                session_timeout_ms=self._session_timeout_ms,
                replica=self.replica,
                clusters=self._clusters,
                queue_limit=QUEUE_LIMIT,
            ),
        )
        program = _INSTALLED / "usr" / "sbin" / "clickhouse-server"
        if not program.exists():
            raise BinaryMissing(f"{program} is missing: make setup-test fetches it")
        return [str(program), f"--config-file={configuration}"]

    def environment(self) -> Mapping[str, str]:
        """Where the program finds its libraries."""
        folders = (*_INSTALLED.glob("lib/*-linux-gnu"), *_INSTALLED.glob("usr/lib/*-linux-gnu"))
        return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}

    def serves(self) -> bool:
        """Whether the server answers a query and its thread of ON CLUSTER queries has reached ZooKeeper.

        18.16 dies of an ON CLUSTER query that comes sooner.
        """
        try:
            return self.query("SELECT 1") == "1" and _REACHED_ZOOKEEPER in self.log_text()
        except (OSError, http.client.HTTPException):
            return False

    def query(self, sql: str, data: str = "", **settings: object) -> str:
        """Run `sql` with `data` after it; the rows come as tab-separated lines, without the last newline.

        `settings` are ClickHouse's. Raises QueryRefused for ClickHouse's own errors, OSError or
        HTTPException where the server cannot be reached or dies meanwhile.
        """
        url = f"http://{self.address}/?" + urlencode({"query": sql, **settings})
        try:
            with urllib.request.urlopen(url, data.encode(), timeout=_QUERY_TIMEOUT_S) as response:
                body: bytes = response.read()
        except urllib.error.HTTPError as refused:
            with refused:
                raise QueryRefused(refused.read().decode(errors="replace").strip()) from None
        return body.decode().removesuffix("\n")

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


@contextmanager
def replicas_at(
    first_port: int, second_port: int, *, session_timeout_ms: int = 6000
) -> Iterator[tuple[ClickHouseServer, ClickHouseServer]]:
    """Run `replica-1` and `replica-2`, the servers of CLUSTER, each at a ZooKeeper or proxy of its own."""
    first, second = (
        ClickHouseServer(port, replica=f"replica-{number}", session_timeout_ms=session_timeout_ms)
        for number, port in enumerate((first_port, second_port), 1)
    )
    with ExitStack() as stack:
        for replica in (first, second):
            replica.join((first, second))
            stack.enter_context(replica)
        yield first, second
