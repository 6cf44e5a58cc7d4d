"""Spark's standalone master and worker, from the jars of the pyspark wheel. ZooKeeper elects the leader."""

import json
import os
import urllib.request
from collections.abc import Mapping, Sequence

from lab.servers.ports import free_port
from lab.servers.process import ServerProcess
from lab.servers.zookeeper import jar_folder, java_program

# What Spark's launcher gives every JVM of Java 17.
_OPENED = ("java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent")

#: Options of a JVM that lives for seconds: one collector, one compiler, and classes of jars are not verified.
SHORT_LIVED = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_JAVA_OPTIONS = (
    *("-Xmx192m", *SHORT_LIVED.split(), "-Djdk.reflect.useDirectMethodHandle=false"),
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENED, "sun.nio.ch")),
)


class _SparkServer(ServerProcess):
    """A server of Spark with a page that tells its state. `properties` are Spark's."""

    main = ""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(start_timeout=90)
        self.page_port = free_port()
        self._properties = properties

    def arguments(self) -> Sequence[str]:
        """The program's own arguments."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        """The java command line."""
        return [
            *(java_program(), *_JAVA_OPTIONS, "-cp", f"{jar_folder()}/*"),
            *(f"-D{name}={value}" for name, value in self._properties.items()),
            *(self.main, "--host", "127.0.0.1", "--webui-port", str(self.page_port), *self.arguments()),
        ]

    def environment(self) -> Mapping[str, str]:
        """Where the worker finds what its executors run."""
        return {
            "SPARK_HOME": str(jar_folder().parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",  # else the worker looks for a build's folders
        }

    def state(self) -> dict[str, object]:
        """What its page tells. Raises OSError."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/json/", timeout=10) as answer:
            state: dict[str, object] = json.load(answer)
        return state

    def serves(self) -> bool:
        """Whether the page is there, and has what it will have: at the very start it is empty."""
        try:
            return bool(self.state())
        except (OSError, json.JSONDecodeError):
            return False


class SparkMaster(_SparkServer):
    """A master; with `addresses`, one of those that ZooKeeper's servers there let elect a leader."""

    kind = "spark-master"
    main = "org.apache.spark.deploy.master.Master"

    def __init__(self, addresses: str = "", folder: str = "") -> None:
        """`folder` is the znode below which they meet."""
        election = {
            "spark.deploy.recoveryMode": "ZOOKEEPER",
            "spark.deploy.zookeeper.url": addresses,
            "spark.deploy.zookeeper.dir": folder,
        }
        super().__init__(election if addresses else {})

    def arguments(self) -> Sequence[str]:
        """The port for workers and drivers."""
        return ["--port", str(self.port)]

    @property
    def status(self) -> str:
        """STANDBY, RECOVERING, COMPLETING_RECOVERY or ALIVE."""
        return str(self.state()["status"])

    def known(self, kind: str) -> set[tuple[str, str]]:
        """(id, state) of its `workers` or `activeapps`."""
        things = self.state()[kind]
        assert isinstance(things, list)
        return {(thing["id"], thing["state"]) for thing in things}


class SparkWorker(_SparkServer):
    """A worker that goes to whichever of the masters leads, with a core for each executor."""

    kind = "spark-worker"
    main = "org.apache.spark.deploy.worker.Worker"

    def __init__(self, masters: str, executors: int = 1) -> None:
        super().__init__({})
        self._masters = masters
        self._executors = executors

    def arguments(self) -> Sequence[str]:
        """What it offers, and where the masters are."""
        return [
            *("--port", str(self.port), "--cores", str(self._executors)),
            *("--memory", f"{600 * self._executors}m"),
            *("--work-dir", os.fspath(self.data_dir), self._masters),
        ]
