"""`python -m bench.pipeline`: the pipeline's commands by size, beside ZooKeeper's tools."""

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.environment import described, here_and_now
from bench.errors import BenchError
from bench.pipeline import tree
from bench.pipeline.measure import Measured, run
from bench.scenarios import Cell, Table, markdown
from bench.servers import ETCD_OPTIONS
from lab.arguments import size
from lab.servers import BinaryMissing, EtcdServer, StartFailed
from lab.servers.zookeeper import java_program, zookeeper_classpath
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file, output_folder

SIZES = (50_000, 500_000, 5_000_000)
_PREFIX = "/zketcd"
_COMMANDS = ("import", "verify", "inspect", "export", "verify files")
_HEAD = ["command", "znodes", "cores", "s", "znodes/s", "CPU s: JVM", "Python", "etcd"]
_HEAD += ["MiB: JVM", "driver", "workers", "etcd", "others' CPU"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON; returns 1 if something could not be run to its end."""
    parser = Parser(prog="python -m bench.pipeline", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add(
        "--nodes",
        type=size,
        action="append",
        help=f"a tree's size; may be repeated (default: {', '.join(map(str, SIZES))})",
    )
    add("--cores", type=size, action="append", help="Spark's local[N]; may be repeated (default: 1 and 2)")
    add("--inserts", type=size, default=0, help="transactions in a log behind the snapshot (default: none)")
    add("--commands", help=f"some of {', '.join(_COMMANDS)}, separated by commas; import always runs")
    add("--no-tools", action="store_true", help="leave ZooKeeper's own tools out")
    add("--work-dir", type=output_folder, metavar="DIR", help="where trees and etcd's files go meanwhile")
    add("--json", type=output_file, metavar="FILE", help="where the figures go as well")
    given = parser.parse_args(arguments)
    commands = given.commands.split(",") if given.commands else list(_COMMANDS)
    tables: list[Table] = []
    failed = False
    try:
        for nodes in given.nodes or SIZES:
            tree.tables_of(nodes)  # raises ValueError before anything has been started
        if given.work_dir is not None:
            given.work_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="zketcd-bench-", dir=given.work_dir) as folder:
            bench = _Bench(Path(folder), given.inserts, commands, given.cores or [1, 2])
            for nodes in given.nodes or SIZES:
                bench.size(nodes, tools=not given.no_tools)
    except (BenchError, BinaryMissing, StartFailed, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        failed = True
    else:
        tables = bench.tables()
    if tables:
        facts = here_and_now()
        print("\n\n".join([*map(markdown, tables), described(facts)]), flush=True)
        if given.json:
            found = {"environment": facts, "tables": [table._asdict() for table in tables]}
            given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if failed else 0


class _Bench:
    def __init__(self, folder: Path, inserts: int, commands: Sequence[str], cores: Sequence[int]) -> None:
        self._folder = folder
        self._inserts = inserts
        self._commands = commands
        self._cores = cores
        self._moved: list[list[Cell]] = []
        self._read: list[list[Cell]] = []

    def tables(self) -> list[Table]:
        """What was found."""
        tables = [Table("The pipeline's commands, Spark's start and end included", _HEAD, self._moved)]
        head = ["what", "znodes", "cores", "s", "znodes/s", "CPU s", "MiB", "others' CPU"]
        if self._read:
            tables.append(Table("Reading and comparing snapshots", head, self._read))
        return tables

    def size(self, nodes: int, *, tools: bool) -> None:
        """All commands on one tree."""
        source = self._folder / f"{nodes}"
        self._told("make", nodes, 0)
        run(_module("bench.pipeline.make", str(nodes), str(source), "--inserts", str(self._inserts)))
        exported = self._folder / f"{nodes}-exported"
        for cores in self._cores:
            with EtcdServer(*ETCD_OPTIONS) as etcd:
                self._move(nodes, cores, source, exported / str(cores), etcd)
        if tools:
            self._beside(nodes, source, exported / str(self._cores[-1]))

    def _move(self, nodes: int, cores: int, source: Path, exported: Path, etcd: EtcdServer) -> None:
        target = ("--etcd", etcd.endpoint, "--prefix", _PREFIX)
        side = f"etcd://{etcd.address}{_PREFIX}"
        there = nodes + (3 * self._inserts if tree.tables_of(nodes) else 0)
        calls: dict[str, Callable[[], Sequence[str]]] = {
            "import": lambda: (*("import", str(source), *target, "--keep-sessions", "--list", "0"),),
            "verify": lambda: ("verify", str(source), side),
            "inspect": lambda: ("inspect", side),
            "export": lambda: ("export", str(exported), *target, "--keep-sessions", "--list", "0"),
            "verify files": lambda: ("verify", str(source), str(exported)),
        }
        for name in _COMMANDS:
            if name not in self._commands and name != "import":
                continue
            self._told(name, nodes, cores)
            found = run(_module("pipeline", *calls[name]()), etcd=etcd.pid, environment=_cores(cores))
            if name == "import" and f"imported: {there} znodes" not in found.output:
                raise BenchError(f"not all of {there} znodes were imported: {found.output}")
            self._moved.append(_row(name, there, cores, found))

    def _beside(self, nodes: int, source: Path, exported: Path) -> None:
        (snapshot,) = (source / "version-2").glob("snapshot.*")
        for cores in self._cores:
            self._told("reading", nodes, cores)
            found = run(_module("bench.pipeline.reading", str(source)), environment=_cores(cores))
            times = [float(line) for line in found.output.splitlines() if line.replace(".", "").isdigit()]
            for name, seconds in zip(("first", "again"), times, strict=True):
                row = _read(f"read by Spark, {name}", nodes, str(cores), found)
                self._read.append([*row[:3], seconds, nodes / seconds, *row[5:]])
        tools = {"SnapshotFormatter": [str(snapshot)]}
        others = sorted((exported / "version-2").glob("snapshot.*"))
        if others:
            tools["SnapshotComparer"] = ["-l", str(snapshot), "-r", str(others[0]), "-b", "1", "-n", "1"]
        for name, options in tools.items():
            self._told(name, nodes, 0)
            found = run(_quiet(*_java(f"org.apache.zookeeper.server.{name}"), *options))
            self._read.append(_read(name, nodes, "all", found))

    def _told(self, what: str, nodes: int, cores: int) -> None:
        print(f"{what}: {nodes} znodes{f', {cores} cores' if cores else ''} ...", file=sys.stderr, flush=True)


def _row(name: str, nodes: int, cores: int, found: Measured) -> list[Cell]:
    cells: list[Cell] = [name, nodes, cores, found.seconds, nodes / found.seconds]
    cells += [
        found.cpu_jvm,
        found.cpu_python,
        found.cpu_etcd,
        found.jvm,
        found.driver,
        found.workers,
        found.etcd,
    ]
    return [*cells, found.others]


def _read(name: str, nodes: int, cores: str, found: Measured) -> list[Cell]:
    memory = found.jvm + found.driver + found.workers
    return [name, nodes, cores, found.seconds, nodes / found.seconds, found.cpu, memory, found.others]


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]


def _cores(cores: int) -> dict[str, str]:
    return {"MASTER": f"local[{cores},4]"}


def _java(name: str) -> list[str]:
    return [java_program(), "-Dorg.apache.logging.log4j.level=ERROR", "-cp", zookeeper_classpath(), name]


def _quiet(*command: str) -> list[str]:
    """The command with its output, a line a znode, thrown away: no time should be spent on a pipe."""
    return ["/bin/sh", "-c", 'exec "$@" >/dev/null', "sh", *command]


if __name__ == "__main__":
    sys.exit(guarded(main, "bench"))
