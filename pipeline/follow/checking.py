"""Compares a tree that follows with its source, at the zxid that it has reached, while both change.

The source's tree is read from its own snapshot and logs, not from the follower's state.
"""

from collections.abc import Iterator
from operator import attrgetter

from cli.output import show
from codec.longs import hex64
from pipeline.errors import Failure
from pipeline.follow.output import print_progress
from pipeline.follow.source import NotThere, Source
from pipeline.follow.target import state_of
from proxy.etcd.interface import Etcd
from proxy.state.machine import Machine
from schema.keys import Keyspace
from schema.paths import QUOTA

EQUAL, DIFFERENT = 0, 1  # exit codes
_SHOWN = 10
_FIELDS = (
    *("data", "acl", "owner", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion"),
)
_fields_of = attrgetter(*_FIELDS)


async def check(etcd: Etcd, keys: Keyspace, source: str, log_path: str | None) -> int:
    """Compare with a ZooKeeper's files, and print the differences; returns the exit code.

    Raises Failure, BadFile, EtcdError.
    """
    from pipeline.follow.base import load_base  # needs numpy and pyarrow

    there, _ = await state_of(etcd, keys)
    here = load_base(source, log_path, there.cluster_id, there.zxid)
    if here.zxid != there.zxid:
        raise Failure(
            f"{source} ends at zxid {here.zxid:#x}, before {there.zxid:#x}, to which the tree in etcd has"
            " come: name the directory that is followed, or wait until its copy is complete"
        )
    return _compared(here, there)


async def check_with(source: Source, etcd: Etcd, keys: Keyspace) -> int:
    """The same with another zketcd. Raises also TreeNotServable."""
    there, position = await state_of(etcd, keys)
    if position.origin is None:
        raise Failure(f"{keys.prefix.decode()} does not follow another zketcd")
    try:
        here = (await source.open(position.origin.entries, position.origin)).machine
    except NotThere as error:
        raise Failure(f"the copy cannot be compared with {source.name}: {error}") from error
    return _compared(here, there)


def _compared(here: Machine, there: Machine) -> int:
    count = 0
    for difference in differences(here, there):
        count += 1
        if count <= _SHOWN:
            print_progress(difference)
    nodes, sessions = len(there.tree.nodes), len(there.sessions)
    if count:
        show(
            f"different at zxid 0x{there.zxid:x}: {count} of {nodes} znodes and {sessions} sessions",
            flush=True,
        )
        return DIFFERENT
    show(f"equal at zxid 0x{there.zxid:x}: {nodes} znodes, {sessions} sessions", flush=True)
    return EQUAL


def differences(source: Machine, copy: Machine) -> Iterator[str]:
    """Each znode and session that differs, in words, except the quotas' counters of each server."""
    nodes, copies = source.tree.nodes, copy.tree.nodes
    for path in sorted(nodes.keys() | copies.keys()):
        if path.startswith(QUOTA) and path.endswith("/zookeeper_stats"):
            continue
        node, copied = nodes.get(path), copies.get(path)
        if node is None or copied is None:
            yield f"{path}: only in {'the source' if copied is None else 'etcd'}"
            continue
        fields = zip(_FIELDS, _fields_of(node), _fields_of(copied), strict=True)
        wrong = [name for name, wanted, found in fields if wanted != found]
        if wrong:
            yield f"{path}: {', '.join(wrong)}"
    for session in sorted(source.sessions.keys() | copy.sessions.keys()):
        wanted, found = source.sessions.get(session), copy.sessions.get(session)
        if wanted is None or found is None or wanted.timeout_ms != found.timeout_ms:
            yield f"session {hex64(session)}"
