"""Trees to compare with: samples of real servers, and trees read by pipeline.formats alone, without Spark."""

import base64
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from codec import snapshot_file
from codec.constants import OpCode
from codec.longs import signed
from codec.seal import sealed_tail
from codec.snapshot_file import pack_head, pack_node
from pipeline.batches import of_rows
from pipeline.formats import digest, directory, log, snapshot, transactions
from pipeline.formats.compression import opened
from pipeline.formats.directory import Survey
from pipeline.formats.snapshot import SnapshotReader
from pipeline.job import Table
from pipeline.progress import Reporter
from pipeline.running.runner import Here
from pipeline.table import ZNODES, AclRow, SessionRow, TransactionRow, ZnodeRow
from schema.paths import parent_of
from schema.znode import session_of

SAMPLES = Path(__file__).parent / "samples"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
# Changed by servers without an entry in the log.
STATS = "/zookeeper/quota/misc/zookeeper_stats"
OPEN = (AclRow(31, "world", "anyone"),)


class Seen(NamedTuple):
    """A node as clients see it."""

    data: bytes | None
    acl: tuple[AclRow, ...]
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    data_length: int
    num_children: int
    pzxid: int


def expected(name: str) -> dict[str, Seen]:
    """What clients of a sample's server saw."""
    with gzip.open(SAMPLES / name / "expected.json.gz") as file:
        nodes = json.load(file)["nodes"]
    fields = (
        *("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner"),
        *("dataLength", "numChildren", "pzxid"),
    )
    return {
        node["path"]: Seen(
            None if node["data_b64"] is None else base64.b64decode(node["data_b64"]),
            tuple(AclRow(*entry) for entry in node["acl"]),
            *(node["stat"][field] for field in fields),
        )
        for node in nodes
    }


def seen(nodes: Iterable[ZnodeRow]) -> dict[str, Seen]:
    """What clients of a server with these nodes see; each path must occur once."""
    nodes = list(nodes)
    children = Counter(parent_of(node.path) for node in nodes if node.path != "/")
    table = {
        node.path: Seen(
            node.data,
            OPEN if node.acl is None else node.acl,
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            2 * node.created - children[node.path],
            node.aversion,
            session_of(node.owner),
            len(node.data or b""),
            children[node.path],
            node.pzxid,
        )
        for node in nodes
    }
    assert len(table) == len(nodes)
    return table


def without_stats(table: Mapping[str, Seen]) -> dict[str, Seen]:
    """All but the quota's counters."""
    return {path: node for path, node in table.items() if path != STATS}


def read(path: Path, step: int = 20_000, chosen: str | None = None) -> tuple[Survey, list[ZnodeRow]]:
    """A directory's survey and nodes, by pipeline.formats alone."""
    found = directory.survey(str(path), chosen=chosen)
    plan = directory.plan(found, step)
    nodes = list(plan.nodes)
    for run in plan.runs:
        with opened(found.snapshot) as source:
            reader = SnapshotReader(source, found.snapshot, 0 if run.end is None else run.start)
            if run.end is None:
                reader.head()
            while True:
                part = reader.nodes(run.end, most=100)
                for offset, raw, data, fixed in zip(
                    part.offsets, part.paths, part.data, part.fixed, strict=True
                ):
                    if offset not in run.left_out:
                        number = int(fixed["acl"])
                        nodes.append(
                            ZnodeRow(
                                snapshot.path_text(raw, found.snapshot, offset),
                                data,
                                None if number == snapshot_file.OPEN_ACL_ID else plan.acls[number],
                                *(int(fixed[name]) for name in ZnodeRow._fields[3:]),
                            )
                        )
                if part.last or (run.end is not None and part.end >= run.end):
                    break
    return found, nodes


def digest_of(nodes: Iterable[ZnodeRow]) -> int:
    """The tree's digest."""
    return signed(
        sum(
            digest.of_node(b"" if node.path == "/" else node.path.encode(), node.data, *node[3:])
            for node in nodes
        )
    )


def node(path: str, zxid: int = 1, **fields: object) -> ZnodeRow:
    """A node as a create makes it, but for `fields`."""
    plain = ZnodeRow(path, b"", None, zxid, zxid, zxid, 1000, 1000, 0, 0, 0, 0)
    return plain._replace(**fields)  # type: ignore[arg-type]


def write_snapshot(
    folder: Path,
    zxid: int,
    nodes: Iterable[ZnodeRow],
    sessions: Iterable[SessionRow] = (),
    trailers: Iterable[bytes] = (),
) -> Path:
    """A plain snapshot, byte by byte as FORMATS has it: a second writer to hold the sink's against."""
    nodes = list(nodes)
    acls = {acl: number for number, acl in enumerate(dict.fromkeys(n.acl for n in nodes if n.acl), 1)}
    raw = pack_head(sessions, {number: acl for acl, number in acls.items()})
    raw += b"".join(pack_node(n.path, n, acls[n.acl] if n.acl else -1) for n in nodes) + snapshot_file.END
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"snapshot.{zxid:x}"
    file.write_bytes(raw + sealed_tail(zlib.adler32(raw), list(trailers)))
    return file


def transaction(zxid: int, kind: OpCode, path: str | None = None, **fields: object) -> TransactionRow:
    """A transaction, by default of session 1 at `zxid` ms."""
    plain = TransactionRow(
        zxid, -1, 1, 0, zxid, kind, path, None, None, None, None, None, None, None, None, None, "", 0
    )
    return plain._replace(**fields)  # type: ignore[arg-type]


def write_log(folder: Path, *txns: Iterable[TransactionRow], padding: int = 100) -> Path:
    """A log of transactions, each given as its rows; named after the first."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [list(txn) for txn in txns]
    file = folder / f"log.{rows[0][0].zxid:x}"
    entries = b"".join(log.pack_entry(transactions.pack(parts)) for parts in rows)
    file.write_bytes(log.pack_header() + entries + bytes(padding))
    return file


class MemoryReader(NamedTuple):
    """A reader of rows that are here, in two partitions."""

    nodes: Sequence[ZnodeRow]

    def partitions(self) -> list[int]:
        return [0, 1]

    def read(self, partition: int) -> Iterator[pa.RecordBatch]:
        return of_rows(self.nodes[partition::2])


def table_of(*nodes: ZnodeRow) -> Table:
    """Nodes as a job reads them; it does not know how many, and deals them into many buckets."""
    return Table(MemoryReader(nodes))


def here() -> Here:
    """The runner without Spark."""
    return Here(Reporter())


def write_parquet(folder: Path, *nodes: ZnodeRow) -> str:
    """Nodes as a table of Parquet files; returns it as a source of the command line."""
    folder.mkdir()
    for number, part in enumerate((nodes[::2], nodes[1::2])):
        pq.write_table(pa.Table.from_batches(of_rows(part), ZNODES), folder / f"{number}.parquet")
    return f"parquet:{folder}"
