"""Loads the tree of a data directory into a state machine: following begins there."""

import enum
from collections.abc import Iterator, Mapping

from codec import snapshot_file
from codec.jute import OPEN_ACL, Acl
from codec.longs import unsigned
from pipeline.batches import fixed_row, stat_of
from pipeline.errors import Failure
from pipeline.etcd.sessions import session_of_row, unknown_session
from pipeline.follow.copy import digest_of
from pipeline.formats import digest, directory, snapshot
from pipeline.formats.compression import opened
from pipeline.formats.directory import Plan, Run
from pipeline.formats.errors import TAIL
from pipeline.formats.snapshot import SnapshotReader
from pipeline.table import AclRow, ZnodeRow
from proxy.state.machine import Machine
from proxy.state.node import Node, make_node
from proxy.support.memory import uncollected
from schema.fixed import fixed_nodes
from schema.paths import CONFIG

_STEP = 64 << 20  # bytes of a snapshot between two reports


def _enter(machine: Machine, paths: list[str], nodes: list[Node]) -> None:
    machine.tree.enter_all(paths, nodes, [node.owner for node in nodes], sum([node.size for node in nodes]))


class Same(enum.Enum):
    """Whether a tree has the digest that ZooKeeper wrote."""

    YES = enum.auto()
    IN_ASCII = enum.auto()  # as a server computes it whose locale has no other characters
    NO = enum.auto()


def load_base(path: str, log_path: str | None, cluster_id: int, upto: int | None = None) -> Machine:
    """The tree at the last complete transaction of the log, or at zxid `upto`. Raises BadFile, Failure.

    `cluster_id` is that of the target etcd cluster.
    """
    survey = directory.survey(path, log_path, repair=frozenset({TAIL}), upto=upto)
    plan = directory.plan(survey, _STEP)
    machine = Machine(cluster_id)
    known: dict[tuple[AclRow, ...] | None, tuple[Acl, ...]] = {None: OPEN_ACL}
    with uncollected():
        for run in plan.runs:
            for paths, nodes in _nodes(survey.snapshot, run, plan, known):
                _enter(machine, paths, nodes)
        _enter(machine, [row.path for row in plan.nodes], [node_of(row, known) for row in plan.nodes])
        for fixed in fixed_nodes():
            if fixed not in machine.tree.nodes:
                raise Failure(f"{survey.snapshot}: there is no {fixed}: it is not a complete tree")
        machine.tree.link_all()
        machine.tree.detach(CONFIG)
        machine.tree.attach(CONFIG, node_of(fixed_row(CONFIG), known))
    machine.zxid = survey.last_zxid
    for session in survey.sessions:
        machine.sessions[session.id] = session_of_row(session)
    for owner in machine.tree.ephemerals.keys() - machine.sessions.keys():
        machine.sessions[owner] = unknown_session(owner)
    machine.reset_digest()
    newest = max(max(node.czxid, node.mzxid, node.pzxid) for node in machine.tree.nodes.values())
    if newest > survey.last_zxid:
        raise Failure(
            f"{survey.snapshot}: a znode has zxid {newest:#x}, and the logs end at {survey.last_zxid:#x}: the"
            " logs behind it are missing. Complete the copy, the logs after the snapshots"
        )
    if survey.digest is not None and compare_digest(machine, survey.digest) is Same.NO:
        raise Failure(
            f"{survey.snapshot}: the tree at zxid {survey.last_zxid:#x} has another digest than"
            " ZooKeeper's own: the copy is not the same tree (`zketcd inspect` says more)"
        )
    return machine


def compare_digest(machine: Machine, signed: int) -> Same:
    """Compare a tree's digest with ZooKeeper's own, which is signed."""
    if digest_of(machine) == unsigned(signed):
        return Same.YES
    return Same.IN_ASCII if ascii_digest_of(machine) == unsigned(signed) else Same.NO


def ascii_digest_of(machine: Machine) -> int:
    """As `digest_of`, for a server whose locale has only ASCII characters."""
    return unsigned(
        sum(
            digest.of_node(b"" if path == "/" else path.encode("ascii", "replace"), node.data, *stat_of(node))
            for path, node in machine.tree.nodes.items()
        )
    )


def acl_of(acl: tuple[AclRow, ...] | None) -> tuple[Acl, ...]:
    """An ACL in the state machine's form: the open one is one shared object."""
    made = OPEN_ACL if acl is None else tuple(Acl(*entry) for entry in acl)
    return OPEN_ACL if made == OPEN_ACL else made


def node_of(row: ZnodeRow, known: dict[tuple[AclRow, ...] | None, tuple[Acl, ...]]) -> Node:
    """A row as a node. `known` makes equal ACLs one shared object."""
    acl = known.get(row.acl)
    if acl is None:
        acl = known[row.acl] = acl_of(row.acl)
    *stat, owner = row[3:]
    return make_node(row.data, acl, owner, *stat)


def _nodes(
    file: str, run: Run, plan: Plan, known: dict[tuple[AclRow, ...] | None, tuple[Acl, ...]]
) -> Iterator[tuple[list[str], list[Node]]]:
    """The nodes of a run that the logs do not change."""
    acls: Mapping[int, tuple[Acl, ...]] = {
        snapshot_file.OPEN_ACL_ID: OPEN_ACL,
        **{number: known.setdefault(acl, acl_of(acl)) for number, acl in plan.acls.items()},
    }
    left_out = frozenset(run.left_out)
    with opened(file) as source:
        reader = SnapshotReader(source, file, 0 if run.end is None else run.start)
        if run.end is None:
            reader.head()
        while True:
            part = reader.nodes(run.end)
            columns = [part.fixed[name].tolist() for name in _FIELDS]
            paths: list[str] = []
            nodes: list[Node] = []
            for offset, raw, data, number, *stat in zip(
                part.offsets, part.paths, part.data, *columns, strict=True
            ):
                if offset in left_out:
                    continue
                acl = acls.get(number)
                if acl is None:
                    raise Failure(f"{file}, byte {offset}: {raw!r} has ACL {number}, which the file lacks")
                paths.append(snapshot.path_text(raw, file, offset))
                nodes.append(make_node(data, acl, *stat))
            if paths:
                yield paths, nodes
            if part.last or (run.end is not None and part.end >= run.end):
                return


# The order of Node's arguments behind the ACL.
_FIELDS = (
    *("acl", "owner", "czxid", "mzxid", "pzxid", "ctime", "mtime"),
    *("version", "created", "aversion"),
)
