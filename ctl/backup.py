"""`zketcd backup DIR`: the tree as a data directory of ZooKeeper with one snapshot. Old ones are deleted.

It needs the server's libraries alone, and the memory of a proxy: `zketcd export` is for larger trees.
Blocks. A backup that has its name is complete.
"""

import gzip
import os
import re
import shutil
import zlib
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cli.output import CommandFailed, Output, counted, size
from codec.jute import OPEN_ACL, Acl
from codec.seal import sealed_tail
from codec.snapshot_file import END, OPEN_ACL_ID, pack_head, pack_node
from ctl.program import Program, Tree
from proxy.options import values
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.support.files import FOLDER, new_file, new_folder, sync_folder
from schema.paths import parent_of
from schema.znode import Znode, session_of
from schema.zxids import epoch_begun_at

_PARTIAL = ".partial"
_TIME = "%Y%m%dT%H%M%SZ"
_TOGETHER = 1000  # znodes of one write


def backup(machine: Machine, prefix: str, position: int, folder: Path, keep: int, now: datetime) -> Output:
    """Write a backup into the folder, then delete all but the newest `keep`; 0 keeps all.

    Backups of one prefix have its name and the time; nothing else in the folder is touched. Those with
    a later time are of a host whose clock was or is wrong: they are neither counted nor deleted. Raises
    OSError, and ValueError if no epoch of zxids is left.
    """
    name = prefix.replace("%", "%25").replace("+", "%2B").replace("/", "+")
    name = name[1:] if name.startswith("+") else f"+{name}"  # of /a and a, which are two trees
    target = folder / f"{name}-{now:{_TIME}}"
    zxid = epoch_begun_at(now.timestamp(), machine.zxid)
    folder.mkdir(FOLDER, parents=True, exist_ok=True)
    partial = folder / f"{_PARTIAL}-{target.name}-{os.getpid()}"
    try:
        for made in (partial, partial / "version-2"):
            new_folder(made)
        # ZooKeeper knows its snapshots by name, and by the suffix that they are compressed.
        file = partial / "version-2" / f"snapshot.{zxid:x}.gz"
        nodes, dropped = _write(machine, file, zxid)
        try:
            partial.rename(target)
        except OSError as error:
            if target.exists():
                raise CommandFailed(f"{target} is there already: run the command again") from error
            raise
        sync_folder(folder)
    except OSError as error:
        error.filename = error.filename or str(folder)  # of a write there is none
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    written = (target / "version-2" / file.name).stat().st_size
    deleted, later = _prune(folder, name, keep, target) if keep else ([], [])
    _clear(folder, name, now)
    return Output(
        {
            "path": str(target),
            "position": position,
            "zxid": f"0x{zxid:x}",
            "nodes": nodes,
            "ephemerals": dropped,
            "bytes": written,
            "deleted": [str(each) for each in deleted],
            "later": [str(each) for each in later],
        },
        [
            f"backed up: {counted(nodes, 'znode')} of {prefix} at position {position} to {target}"
            f" ({size(written)})",
            f"left out: {counted(dropped, 'ephemeral')}, whose sessions end anyway",
            *(f"deleted: {each}" for each in deleted),
            *(f"neither counted nor deleted, as its time has not come yet: {each}" for each in later),
        ],
    )


def _write(machine: Machine, file: Path, zxid: int) -> tuple[int, int]:
    """Write the snapshot; how many nodes it has, and how many ephemerals it leaves out."""
    nodes = machine.tree.nodes
    dropped = {path for path, node in nodes.items() if session_of(node.owner)}
    parents = {parent_of(path) for path in dropped}
    acls = {OPEN_ACL: OPEN_ACL_ID}
    for node in nodes.values():
        acls.setdefault(node.acl, len(acls))
    # Sorted paths have parents before their children.
    paths = [path for path in sorted(nodes) if path not in dropped]
    adler = 1
    with new_file(file) as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1) as packed:
        for chunk in _chunks(nodes, paths, parents, acls, zxid):
            adler = zlib.adler32(chunk, adler)
            packed.write(chunk)
        packed.write(sealed_tail(adler, []))
        packed.close()
        raw.flush()
        os.fsync(raw.fileno())
    sync_folder(file.parent)
    return len(paths), len(dropped)


def _chunks(
    nodes: dict[str, Node], paths: list[str], parents: set[str], acls: dict[tuple[Acl, ...], int], zxid: int
) -> Iterator[bytes]:
    """The file without its seal."""
    yield pack_head((), {number: acl for acl, number in acls.items() if number != OPEN_ACL_ID})
    for start in range(0, len(paths), _TOGETHER):
        records = []
        for path in paths[start : start + _TOGETHER]:
            node: Node | Znode = nodes[path]
            acl = acls[node.acl]
            if path in parents:
                # Its ephemerals are left out: its children have changed last at the backup's zxid.
                parent = Znode(*node.fields())
                parent.pzxid = max(parent.pzxid, zxid)
                node = parent
            records.append(pack_node(path, node, acl))
        yield b"".join(records)
    yield END


def _prune(folder: Path, name: str, keep: int, newest: Path) -> tuple[list[Path], list[Path]]:
    """Delete all but `keep` backups of this tree, `newest` among them; those deleted, and later ones."""
    pattern = re.compile(re.escape(name) + r"-\d{8}T\d{6}Z")
    found = sorted(each for each in folder.iterdir() if pattern.fullmatch(each.name) and each.is_dir())
    place = found.index(newest) + 1
    old = found[: max(0, place - keep)]
    for each in old:
        doomed = each.rename(folder / f"{_PARTIAL}-{each.name}-{os.getpid()}")  # no name for a part of it
        shutil.rmtree(doomed)
    return old, found[place:]


def _clear(folder: Path, name: str, now: datetime) -> None:
    """Delete what runs that were killed have left of this tree. Raises OSError. No run takes a day."""
    pattern = re.compile(re.escape(f"{_PARTIAL}-{name}-") + r"(\d{8}T\d{6}Z)-\d+")
    yesterday = f"{now - timedelta(days=1):{_TIME}}"
    for each in folder.iterdir():
        if (found := pattern.fullmatch(each.name)) and found[1] < yesterday:
            shutil.rmtree(each)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="the directory of the backups; each has one of its own"
    )
    parser.add_argument(
        "--keep",
        type=values.not_negative,
        default=0,
        metavar="N",
        help="delete all but the newest N backups of this tree; 0 keeps all",
    )


def _run(tree: Tree, given: Any) -> Output:
    machine, caught, *_ = tree.loaded()
    now = datetime.now(UTC)
    return backup(machine, given.prefix, caught.revision, given.folder, given.keep, now)


PROGRAMS = {"backup": Program(_run, _arguments)}
