"""The znodes of a made-up ClickHouse cluster: tables of two replicas, their parts, blocks, logs and queues.

Pure and deterministic: the same number of znodes is the same tree, and any table of it is made separately, so
Spark makes millions of them in parallel. Counters, zxids and Stats fit together as a server would have left
them; logs have been trimmed, so counters run ahead of the children that are there.
"""

from collections.abc import Iterator
from hashlib import blake2b

from codec.constants import OpCode
from pipeline.table import AclRow, SessionRow, TransactionRow, ZnodeRow

TABLE_NODES = 1000
"""Znodes of each table."""
SHARDS = 4
SERVERS = 64
SESSION_TIMEOUT_MS = 3_600_000

_REPLICAS = ("r1", "r2")
_PARTS = 200  # of each replica
_LOG = 100  # entries that are left of each table's log
_TRIMMED = 5000  # entries that are gone
_QUEUE = 10
_POINTER_SETS = 40  # how often a replica has moved its log pointer
_MOST_ZXIDS = 2000  # of one table
_FIRST_TABLE_ZXID = 1000
_ROOTS = 7 + SHARDS  # nodes that every tree has
_FIRST_MS = 1_700_000_000_000
_FIRST_SESSION = 0x1000_0000_0000_0001
_ACL_EVERY = 10  # tables
_ACL = (AclRow(31, "digest", "clickhouse:Zm9vYmFyYmF6cXV4Zm9vYmFyYmE="), AclRow(1, "world", "anyone"))


class _Section:
    """Some of the tree, made in the order of its zxids."""

    def __init__(self, zxid: int, acl: tuple[AclRow, ...] | None = None) -> None:
        self.zxid = zxid
        self._acl = acl
        self._nodes: list[tuple[str, bytes | None, int, int, int]] = []
        self._children: dict[str, tuple[int, int]] = {}  # path -> children ever created, zxid of the last

    def add(self, path: str, data: bytes | None = b"", *, owner: int = 0, sets: int = 0) -> None:
        """Create a node, and set its data `sets` times."""
        self.zxid += 1
        parent = path.rpartition("/")[0] or "/"
        if path != "/":
            self.count(parent, 1)
        self._nodes.append((path, data, owner, self.zxid, sets))
        self.zxid += sets

    def count(self, path: str, children: int, zxid: int = 0) -> None:
        """So many children were created besides, the last one at `zxid` (now)."""
        created, last = self._children.get(path, (0, 0))
        self._children[path] = (created + children, max(last, zxid or self.zxid))

    def rows(self) -> Iterator[ZnodeRow]:
        """The nodes as they are in the end."""
        for path, data, owner, zxid, sets in self._nodes:
            created, pzxid = self._children.get(path, (0, zxid))
            at, changed = _FIRST_MS + zxid, zxid + sets
            yield ZnodeRow(
                path, data, self._acl, zxid, changed, pzxid, at, _FIRST_MS + changed, sets, created, 0, owner
            )


def tables_of(nodes: int) -> int:
    """How many tables a tree of so many nodes has. Raises ValueError where it is too small for a tree."""
    if nodes < _ROOTS:
        raise ValueError(f"a tree has {_ROOTS} znodes at least")
    return (nodes - _ROOTS) // TABLE_NODES


def sessions() -> tuple[SessionRow, ...]:
    """The servers' sessions."""
    return tuple(SessionRow(_FIRST_SESSION + server, SESSION_TIMEOUT_MS) for server in range(SERVERS))


def last_zxid(nodes: int) -> int:
    """The zxid that the tree is at."""
    return _trunk(nodes).zxid


def trunk(nodes: int) -> Iterator[ZnodeRow]:
    """All but the tables, the nodes that are too few for another table included."""
    return _trunk(nodes).rows()


def table(number: int) -> Iterator[ZnodeRow]:
    """The znodes of one table."""
    top = table_path(number)
    made = _Section(_FIRST_TABLE_ZXID + number * _MOST_ZXIDS, _ACL if number % _ACL_EVERY == 0 else None)
    columns = _text(f"columns {number}", 600)
    metadata = _text(f"metadata {number}", 300)
    made.add(top)
    made.add(f"{top}/metadata", metadata)
    made.add(f"{top}/columns", columns)
    for name in ("log", "blocks", "block_numbers", "leader_election", "mutations", "quorum", "replicas"):
        made.add(f"{top}/{name}", b"last added replica: r2" if name == "replicas" else b"")
    made.add(f"{top}/temp", None)
    made.add(f"{top}/quorum/last_part")
    made.add(f"{top}/block_numbers/202611")
    made.add(f"{top}/leader_election/leader_election-0000000000", b"r1", owner=_session(number, 0))
    for place, replica in enumerate(_REPLICAS):
        home = f"{top}/replicas/{replica}"
        made.add(home)
        made.add(f"{home}/host", b"host: ch-%d\nport: 9009\ntcp_port: 9000\n" % ((number + place) % SERVERS))
        made.add(f"{home}/is_active", b"%032x" % number, owner=_session(number, place))
        made.add(f"{home}/columns", columns)
        made.add(f"{home}/metadata", metadata)
        made.add(f"{home}/log_pointer", b"%d" % (_TRIMMED + _LOG), sets=_POINTER_SETS)
        for name in ("flags", "is_lost", "metadata_version", "mutation_pointer", "parts", "queue"):
            made.add(f"{home}/{name}", b"0" if name in ("is_lost", "metadata_version") else b"")
        for name in ("max_processed_insert_time", "min_unprocessed_insert_time"):
            made.add(f"{home}/{name}", b"1700000000")
        for part in range(_PARTS):
            name = f"202611_{part * 5}_{part * 5 + 4}_1"
            made.add(f"{home}/parts/{name}", _text(f"{number} {name}", 150))
        made.count(f"{home}/queue", _TRIMMED)
        for entry in range(_TRIMMED, _TRIMMED + _QUEUE):
            made.add(f"{home}/queue/queue-{entry:010d}", _entry(number, entry))
    made.count(f"{top}/log", _TRIMMED)
    for entry in range(_TRIMMED, _TRIMMED + _LOG):
        made.add(f"{top}/log/log-{entry:010d}", _entry(number, entry))
    there = sum(1 for _ in made.rows())
    for block in range(TABLE_NODES - there):
        made.add(f"{top}/blocks/{_block(number, block)}", f"202611_{block}_{block}_0".encode())
    return made.rows()


def table_path(number: int) -> str:
    """Where a table lies."""
    return f"/clickhouse/tables/{number % SHARDS:02d}/db.events_{number:06d}"


def inserts(nodes: int, count: int) -> Iterator[list[TransactionRow]]:
    """`count` inserts behind a tree of `nodes` znodes, one after the other into each table.

    Each is a multi of three creates: an entry of the log, a block, a part. Nothing where there is no table.
    """
    tables = tables_of(nodes)
    zxid = last_zxid(nodes)
    blocks = sum(1 for row in table(0) if "/blocks/" in row.path)
    for number in range(count if tables else 0):
        zxid += 1
        chosen, turn = number % tables, number // tables
        top = table_path(chosen)
        entry = _TRIMMED + _LOG + turn
        part = f"202611_{_PARTS * 5 + turn}_{_PARTS * 5 + turn}_0"
        acl = _ACL if chosen % _ACL_EVERY == 0 else (AclRow(31, "world", "anyone"),)
        creates = (
            (f"{top}/log/log-{entry:010d}", _entry(chosen, entry), entry + 1),
            (f"{top}/blocks/{_block(chosen, blocks + turn)}", part.encode(), blocks + turn + 1),
            (f"{top}/replicas/r1/parts/{part}", _text(f"{chosen} {part}", 150), _PARTS + turn + 1),
        )
        yield [
            TransactionRow(
                zxid=zxid,
                part=place,
                session_id=_session(chosen, 0),
                cxid=turn,
                time=_FIRST_MS + zxid,
                type=OpCode.CREATE,
                path=path,
                data=data,
                acl=acl,
                version=None,
                parent_cversion=created,
                owner=0,
                timeout_ms=None,
                error=None,
                paths=None,
                digest=None,
                file="",
                offset=0,
            )
            for place, (path, data, created) in enumerate(creates)
        ]


def _trunk(nodes: int) -> _Section:
    tables = tables_of(nodes)
    made = _Section(0)
    for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/clickhouse"):
        made.add(path)
    made.add("/clickhouse/tables")
    for shard in range(SHARDS):
        made.add(f"/clickhouse/tables/{shard:02d}")
    for number in range(max(0, tables - SHARDS), tables):
        zxid = _FIRST_TABLE_ZXID + number * _MOST_ZXIDS + 1
        there = len(range(number % SHARDS, tables, SHARDS))
        made.count(f"/clickhouse/tables/{number % SHARDS:02d}", there, zxid)
    made.zxid = _FIRST_TABLE_ZXID + tables * _MOST_ZXIDS
    ddl = "/clickhouse/ddl"
    made.add(ddl)
    for query in range(nodes - _ROOTS - tables * TABLE_NODES):
        made.add(f"{ddl}/query-{query:010d}", _text(f"query {query}", 250))
    return made


def _session(number: int, place: int) -> int:
    return _FIRST_SESSION + (number + place) % SERVERS


def _entry(number: int, entry: int) -> bytes:
    return (
        f"format version: 4\ncreate_time: 2026-11-21 10:00:00\nsource replica: r1\nblock_id: "
        f"{_block(number, entry)}\nget\n202611_{entry}_{entry}_0\n"
    ).encode()


def _block(number: int, block: int) -> str:
    digest = blake2b(b"%d %d" % (number, block), digest_size=16)
    return f"202611_{int.from_bytes(digest.digest()[:8])}_{int.from_bytes(digest.digest()[8:])}"


def _text(seed: str, size: int) -> bytes:
    """`size` bytes that compress as badly as checksums do."""
    made = b"".join(blake2b(f"{seed} {at}".encode()).hexdigest().encode() for at in range(-(-size // 128)))
    return made[:size]
