"""The real ZooKeeper server, the oracle of the differential tests.

Versions come from Debian's packages (`.cache/zookeeper-VERSION`, see requirements/debs.txt) and from the
pyspark wheel, which also has the libraries for all of them. The newest is started, or the one that
ZKETCD_TEST_ZOOKEEPER names, e.g. "3.9.5".
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from lab.servers.four_letter import four_letter_word
from lab.servers.process import REPOSITORY, BinaryMissing, ServerProcess, find_program

# What the standalone server and zkCli load, found with `java -verbose:class`.
_LIBRARIES = (
    "slf4j-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "log4j-1.2-api",
    "metrics-core",
    "snappy-java",
    "commons-cli",
    "commons-io",
    "jline-2",
    "netty-buffer",
    "netty-codec-base",
    "netty-common",
    "netty-handler-4",
    "netty-resolver",
    "netty-transport-4",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
)
#: For a server that lives as long as a test: the second compiler takes more time than it saves.
SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_JAR = re.compile(r"zookeeper-(3[0-9.]*)\.jar")


def jar_folder() -> Path:
    """Where the pyspark wheel keeps its jars. Raises BinaryMissing."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise BinaryMissing(
            "pyspark, whose wheel holds ZooKeeper's jars, is not installed: make setup-dev installs it"
        )
    return Path(spec.submodule_search_locations[0]) / "jars"


def zookeeper_jars(version: str = "") -> list[Path]:
    """The jars of ZooKeeper itself, without libraries: of the newest version that begins with `version`.

    In the order of a class path. The manifest of Debian's jar of the server, the last, names
    /usr/share/java/zookeeper-jute.jar, which is another version's if that package is installed.

    "" leaves the choice to ZKETCD_TEST_ZOOKEEPER, else to what is installed. Raises BinaryMissing.
    """
    wanted = version or os.environ.get("ZKETCD_TEST_ZOOKEEPER", "")
    folders = [jar_folder(), *(REPOSITORY / ".cache").glob("zookeeper-*/usr/share/java")]
    there = {
        found[1]: path
        for folder in folders
        for path in folder.glob("zookeeper-*.jar")
        if (found := _JAR.fullmatch(path.name)) and f"{found[1]}.".startswith(wanted and f"{wanted}.")
    }
    if not there:
        raise BinaryMissing(
            f"there is no jar of ZooKeeper {wanted}: make setup-test fetches them where there is apt"
        )
    newest = max(there, key=lambda found: tuple(map(int, found.split("."))))
    return [there[newest].with_name(f"zookeeper-jute-{newest}.jar"), there[newest]]


def zookeeper_classpath(version: str = "") -> str:
    """The class path of a server and its command line client; see `zookeeper_jars`. Raises BinaryMissing."""
    libraries = sorted(path for path in jar_folder().glob("*.jar") if path.name.startswith(_LIBRARIES))
    # The manifests of Debian's jars name libraries below /usr/share: those of the wheel come first.
    return os.pathsep.join(map(str, [*libraries, *zookeeper_jars(version)]))


def zookeeper_jar_version() -> str:
    """The version that is started where none is named, e.g. "3.9.6". Raises BinaryMissing."""
    return zookeeper_jars()[-1].stem.removeprefix("zookeeper-")


def java_program() -> str:
    """The java program: JAVA_HOME's, else the first on PATH. Raises BinaryMissing."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = shutil.which("java", path=str(Path(home) / "bin"))
        if found is not None:
            return found
    return find_program("java", "make test installs one where it may use apt")


@cache
def archive_of_classes(version: str) -> str:
    """The option of a SMALL_JVM that maps ZooKeeper's classes, which takes less time than to load them.

    The first one on a machine makes the archive, by a server that ends. A java that cannot use it loads the
    classes. Raises BinaryMissing and StartFailed.
    """
    java = Path(java_program()).resolve()
    loaded_from = f"{java} {java.stat().st_mtime_ns} {zookeeper_classpath(version)}"
    name = f"classes-{hashlib.sha256(loaded_from.encode()).hexdigest()[:16]}.jsa"
    folder = REPOSITORY / ".cache"
    folder.mkdir(exist_ok=True)
    with (folder / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            with tempfile.TemporaryDirectory(dir=folder) as made_in:
                made = Path(made_in, name)
                options = (*SMALL_JVM, f"-XX:ArchiveClassesAtExit={made}")
                with ZooKeeperServer(java_options=options, version=version) as server:
                    server.stop()
                if made.exists():
                    made.rename(folder / name)
    return f"-XX:SharedArchiveFile={folder / name}"


class ZooKeeperServer(ServerProcess):
    """A standalone ZooKeeper. Times are milliseconds; -1 means ZooKeeper's default (2 and 20 ticks)."""

    kind = "zookeeper"

    def __init__(
        self,
        *,
        tick_time: int = 2000,
        min_session_timeout: int = -1,
        max_session_timeout: int = -1,
        max_client_connections: int = 60,
        jute_max_buffer: int | None = None,
        settings: Mapping[str, str] | None = None,
        system_properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = SMALL_JVM,
        version: str = "",
        port: int | None = None,
        start_timeout: float = 90.0,
    ) -> None:
        """`settings` are further lines of zoo.cfg, `system_properties` become -D options of java;
        `version` chooses a ZooKeeper as in `zookeeper_jars`.
        """
        super().__init__(port=port, start_timeout=start_timeout)
        self._settings = {
            "tickTime": str(tick_time),
            "minSessionTimeout": str(min_session_timeout),
            "maxSessionTimeout": str(max_session_timeout),
            "maxClientCnxns": str(max_client_connections),
            "dataDir": str(self.data_dir),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **(settings or {}),
        }
        self._properties = {"org.apache.logging.log4j.level": "WARN", **(system_properties or {})}
        if jute_max_buffer is not None:
            self._properties["jute.maxbuffer"] = str(jute_max_buffer)
        self._java_options = java_options
        self._version = version

    def command(self) -> Sequence[str]:
        """The java command line; writes the configuration file that it names."""
        configuration = self.folder / "zoo.cfg"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        return [
            java_program(),
            *self._java_options,
            *([archive_of_classes(self._version)] if self._java_options is SMALL_JVM else []),
            *(f"-D{key}={value}" for key, value in self._properties.items()),
            "-cp",
            zookeeper_classpath(self._version),
            # As zkServer.sh does: this entry point falls back to standalone mode.
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(configuration),
        ]

    def serves(self) -> bool:
        """Whether `srvr` tells a mode; while it loads, the server answers that it does not serve requests."""
        try:
            # One that is just starting may take the connection and never answer: ask again soon.
            return "Mode:" in four_letter_word(self.port, "srvr", timeout=1.0)
        except OSError:
            return False

    def is_leader(self) -> bool:
        """Whether this server leads an ensemble now."""
        return "Mode: leader" in four_letter_word(self.port, "srvr")

    def version(self) -> str:
        """The version that the running server tells, e.g. "3.9.6"."""
        found = re.search(r"Zookeeper version: ([0-9.]+)", four_letter_word(self.port, "srvr"))
        if found is None:
            raise RuntimeError("srvr tells no version")
        return found.group(1)
