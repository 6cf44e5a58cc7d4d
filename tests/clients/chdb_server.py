"""A ClickHouse of today, from the package chdb, in a process of its own: it embeds the whole server.

`python -m tests.clients.chdb_server PORT OPTIONS` runs queries, one a line of standard input as JSON, and
answers each with a line of JSON: its output, or what went wrong.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.clients.child import Child

_CONFIG = """<clickhouse>
  <zookeeper>
    <node><host>127.0.0.1</host><port>{port}</port></node>
    {options}
  </zookeeper>
  <remote_servers><alone><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></alone></remote_servers>
  <keeper_map_path_prefix>/keeper_map</keeper_map_path_prefix>
  <user_defined_zookeeper_path>/functions</user_defined_zookeeper_path>
  <workload_zookeeper_path>/workloads</workload_zookeeper_path>
  <named_collections_storage><type>keeper</type><path>/collections</path></named_collections_storage>
</clickhouse>
"""


class ClickHouse(Child):
    """Runs queries against the ZooKeeper on 127.0.0.1:`port`; `options` go into its <zookeeper> section."""

    def __init__(self, folder: Path, port: int, options: str = "") -> None:
        config = folder / "config.xml"
        config.write_text(_CONFIG.format(port=port, options=options))
        arguments = ("-m", "tests.clients.chdb_server", str(folder / "data"), str(config))
        super().__init__(folder / "stderr", *arguments)

    def query(self, query: str) -> str:
        """What a query answers, as CSV. Raises RuntimeError with ClickHouse's words if it fails."""
        answer = json.loads(self.ask(json.dumps(query), "{"))  # chdb writes lines of its own
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return str(answer["output"])


def _serve(data: str, config: str) -> None:
    import chdb

    connection: Any = chdb.connect(f"{data}?config-file={config}")  # type: ignore[no-untyped-call]
    for line in sys.stdin:
        try:
            answer = {"output": str(connection.query(json.loads(line))).strip()}
        except Exception as error:  # noqa: BLE001 - the test that asked fails with it
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
