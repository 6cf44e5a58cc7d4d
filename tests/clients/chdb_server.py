"""A ClickHouse of today, from the package chdb, in a process of its own: it embeds the whole server.

`python -m tests.clients.chdb_server PORT OPTIONS` runs queries, one a line of standard input as JSON, and
answers each with a line of JSON: its output, or what went wrong.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.clients.chdb_main import finish_start
from tests.clients.child import Child

# The library has no interserver server: nothing may listen where replicas fetch parts from.
_CLOSED_PORT = 1
_CONFIG = """<clickhouse>
  <zookeeper>
    <node><host>127.0.0.1</host><port>{port}</port></node>
    <sessions_path>/clickhouse/sessions/{replica}</sessions_path> <!-- all have the UUID 0 -->
    {options}
  </zookeeper>
  <macros><shard>s</shard><replica>{replica}</replica></macros>
  <background_schedule_pool_size>16</background_schedule_pool_size> <!-- with 2 tasks wait for each other -->
  <distributed_ddl><path>/clickhouse/ddl</path></distributed_ddl>
  <remote_servers><alone><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></alone></remote_servers>
  <keeper_map_path_prefix>/keeper_map</keeper_map_path_prefix>
  <user_defined_zookeeper_path>/functions</user_defined_zookeeper_path>
  <workload_zookeeper_path>/workloads</workload_zookeeper_path>
  <named_collections_storage><type>keeper</type><path>/collections</path></named_collections_storage>
</clickhouse>
"""


class ClickHouse(Child):
    """Runs queries against the ZooKeeper on 127.0.0.1:`port`; `options` go into its <zookeeper> section.

    `replica`: its name; then tables and databases can be replicated.
    """

    def __init__(self, folder: Path, port: int, options: str = "", replica: str = "") -> None:
        config = folder / f"config{replica}.xml"
        config.write_text(_CONFIG.format(port=port, options=options, replica=replica or "none"))
        arguments = ("-m", "tests.clients.chdb_server", str(folder / f"data{replica}"), str(config), replica)
        super().__init__(folder / f"stderr{replica}", *arguments)

    def query(self, query: str) -> str:
        """What a query answers, as CSV. Raises RuntimeError with ClickHouse's words if it fails."""
        answer = json.loads(self.ask(json.dumps(query), "{"))  # chdb writes lines of its own
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return str(answer["output"])


def _library() -> Any:
    """The library without its Python package, which starts a ClickHouse and ends it when it is imported.

    With that end some of ClickHouse ends for the whole process, as S3Queue ("Shutdown was called").
    """
    found = importlib.util.find_spec("chdb")
    assert found
    assert found.submodule_search_locations
    package = sys.modules["chdb"] = ModuleType("chdb")
    package.__path__ = list(found.submodule_search_locations)
    return importlib.import_module("chdb._chdb")


def _serve(data: str, config: str, replica: str) -> None:
    library = _library()
    connection = library.connect(f"{data}?config-file={config}")
    if replica:
        finish_start("127.0.0.1", _CLOSED_PORT)
    for line in sys.stdin:
        try:
            answer = {"output": str(connection.query(json.loads(line), "CSV")).strip()}
        except Exception as error:  # noqa: BLE001 - the test that asked fails with it
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
