"""A ClickHouse of today, from the package chdb, in a process of its own: it embeds the whole server.

`python -m tests.clients.chdb_server PORT OPTIONS` runs queries, one a line of standard input as JSON, and
answers each with a line of JSON: its output, or what went wrong.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.servers.process import REPOSITORY

_CONFIG = """<clickhouse>
  <zookeeper>
    <node><host>127.0.0.1</host><port>{port}</port></node>
    {options}
  </zookeeper>
  <keeper_map_path_prefix>/keeper_map</keeper_map_path_prefix>
  <user_defined_zookeeper_path>/functions</user_defined_zookeeper_path>
  <workload_zookeeper_path>/workloads</workload_zookeeper_path>
  <named_collections_storage><type>keeper</type><path>/collections</path></named_collections_storage>
</clickhouse>
"""


class ClickHouse:
    """Runs queries against the ZooKeeper on 127.0.0.1:`port`; `options` go into its <zookeeper> section."""

    def __init__(self, folder: Path, port: int, options: str = "") -> None:
        config = folder / "config.xml"
        config.write_text(_CONFIG.format(port=port, options=options))
        command = [sys.executable, "-m", "tests.clients.chdb_server", str(folder / "data"), str(config)]
        with (folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._errors = folder / "stderr"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def query(self, query: str) -> str:
        """What a query answers, as CSV. Raises RuntimeError with ClickHouse's words if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(query) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):  # chdb writes lines of its own
                answer = json.loads(line)
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return str(answer["output"])
        raise RuntimeError(f"ClickHouse is gone: {self._errors.read_text()[-2000:]}")


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
