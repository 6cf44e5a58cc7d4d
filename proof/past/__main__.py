"""`python -m proof.past`: are an archive's states those that clients saw, whatever was killed meanwhile?

Three proxies with `--archive` on three members of etcd. Proxies and the members that lead are killed, so
another proxy archives; snapshots are written and the log is truncated. Then the archive's state at random
zxids is compared, field by field, with a model of the clients' replies.

The exit code is 0 if all are equal, 1 if not, 2 if the run was not possible.
"""

import argparse
import contextlib
import io
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from archive.catalog import Catalog, NotArchived
from archive.moment import moment
from archive.past import state_at
from archive.store import Store, store_of
from archive.verify import verify
from codec.packets import STAT
from lab.arguments import whole
from lab.client.blocking import Client
from lab.servers import BinaryMissing, EtcdServer, StartFailed, ZketcdServer, wait_until
from proof.past.model import Model, Seen, Write
from proof.past.writers import ROOT, Writer
from proxy.ctl.__main__ import main as ctl
from proxy.state.node import Node
from proxy.support.usage import Parser

_MEMBERS = _PROXIES = 3
_WRITERS = 6
_PREFIX = "/past"
_SNAPSHOT_REQUESTS = 50_000  # a snapshot every few seconds, and truncation behind it
_PATIENCE = 120.0  # seconds for the archive to have everything


class _Member(EtcdServer):
    """One of several members of etcd."""

    others: Sequence["_Member"] = ()

    def command(self) -> Sequence[str]:
        members = ",".join(f"{each.member}=http://127.0.0.1:{each.peer_port}" for each in self.others)
        kept = [each for each in super().command() if not each.startswith(("--name", "--initial-cluster"))]
        return [*kept, f"--name={self.member}", f"--initial-cluster={members}"]

    @property
    def member(self) -> str:
        """Its name."""
        return f"m{self.peer_port}"

    def leads(self) -> bool:
        """Whether it is the leader."""
        try:
            return self.alive and self.metric("etcd_server_is_leader") == 1
        except OSError:
            return False


class Figures(NamedTuple):
    """What a run has done."""

    writes: int
    kills: int
    elections: int
    lost: int
    snapshots: int
    segments: int
    gaps: int  # entries were truncated while no proxy archived: their moments are refused
    moments: int
    seconds: float  # of all comparisons


class World:
    """The servers, and their faults."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.url = str(folder / "archive")
        self.members = [_Member() for _ in range(_MEMBERS)]
        for member in self.members:
            member.others = self.members
            stack.callback(member.close)
            member.launch()
        for member in self.members:
            member.wait_until_serving()
        self._endpoints = ",".join(member.endpoint for member in self.members)
        self.proxies = [
            ZketcdServer(
                self._endpoints,
                prefix=_PREFIX,
                archive=self.url,
                proxy_lease=2,
                max_client_connections=0,
                snapshot_log_requests=_SNAPSHOT_REQUESTS,
            )
            for _ in range(_PROXIES)
        ]
        for proxy in self.proxies:
            stack.enter_context(proxy)
        self.kills = self.elections = 0

    def kill_proxy(self, proxy: ZketcdServer) -> None:
        """Kill it, and start it again."""
        self.kills += 1
        proxy.kill()
        proxy.start()

    def elect(self) -> None:
        """Kill the member that leads, and start it again."""
        for member in self.members:
            if member.leads():
                self.elections += 1
                member.kill()
                member.start()
                return

    def snapshot(self) -> None:
        """Write a snapshot, and truncate what the one before it has."""
        with contextlib.redirect_stdout(io.StringIO()):
            ctl(["--etcd", self._endpoints, "--prefix", _PREFIX, "snapshot"])


def run(writes: int, moments: int, seed: int, every: float) -> tuple[Figures, list[str]]:
    """One history; the figures, and what differs. `every`: seconds between two faults."""
    folder = Path(tempfile.mkdtemp(prefix="zketcd-past-"))
    try:
        with contextlib.ExitStack() as stack:
            world = World(folder, stack)
            ports = [proxy.port for proxy in world.proxies]
            with Client(ports[0]) as client:
                client.create(ROOT)
            writers = [Writer(number, ports, seed, writes // _WRITERS) for number in range(_WRITERS)]
            for writer in writers:
                writer.start()
            _disturb(world, writers, every, random.Random(seed))
            for writer in writers:
                writer.join()
            history = sorted(write for writer in writers for write in writer.writes)
            store = store_of(world.url)
            wait_until(lambda: _end(store) >= history[-1].zxid, "everything is archived", _PATIENCE)
            kills, elections = world.kills, world.elections
        found = [f"{each.file}: {each.error}" for each in verify(store) if each.error]
        doubts = {path: zxid for writer in writers for path, zxid in writer.doubts.items()}
        began = time.monotonic()
        chosen = sorted(random.Random(seed).sample(history, min(moments, len(history))))
        refused, differences = _compare(store, history, [write.zxid for write in chosen], doubts)
        found += differences
        runs = Catalog(store.list()).runs
        found += [f"segments are missing in {each.name}" for each in runs if each.holes]
        figures = Figures(
            len(history),
            kills,
            elections,
            sum(writer.lost for writer in writers),
            sum(len(each.snapshots) for each in runs),
            sum(len(each.segments) for each in runs),
            len(runs) - 1,
            len(chosen) - refused,
            time.monotonic() - began,
        )
        return figures, found
    finally:
        shutil.rmtree(folder)


def _disturb(world: World, writers: Sequence[Writer], every: float, chance: random.Random) -> None:
    step = 0
    while not all(writer.is_done for writer in writers):
        time.sleep(every)
        world.kill_proxy(chance.choice(world.proxies))
        if step % 2 == 0:
            world.snapshot()
        if step % 2 == 1:
            world.elect()
        step += 1


def _end(store: Store) -> int:
    runs = Catalog(store.list()).runs
    return runs[-1].end.zxid if runs else 0


def _compare(
    store: Store, history: Sequence[Write], zxids: Sequence[int], doubts: dict[str, int]
) -> tuple[int, list[str]]:
    """How many of these moments lie in gaps, where the archive has no state; and what differs at others."""
    found: list[str] = []
    refused = 0
    runs = Catalog(store.list()).runs
    model = Model()
    rest = iter(history)
    for zxid in zxids:
        while model.zxid < zxid:
            model.apply(next(rest))
        try:
            state = state_at(store, moment(f"0x{zxid:x}", 0))
        except NotArchived as error:
            if any(one.end.zxid < zxid < other.begin.zxid for one, other in pairwise(runs)):
                refused += 1
            else:
                found.append(str(error))
            continue
        nodes = {path: node for path, node in state.tree.nodes.items() if path.startswith(f"{ROOT}/")}
        for path in sorted(nodes.keys() | model.nodes.keys()):
            wanted, there = model.nodes.get(path), nodes.get(path)
            if wanted is None or there is None:
                found.append(f"0x{zxid:x} {path}: {'too many' if wanted is None else 'missing'}")
                continue
            archived = _seen(there)
            if doubts.get(path, zxid) < zxid:
                archived = archived._replace(acl=wanted.acl, aversion=wanted.aversion)
            if wanted.differs(archived):
                found.append(f"0x{zxid:x} {path}: {archived} instead of {wanted}")
    return refused, found


def _seen(node: Node) -> Seen:
    czxid, mzxid, _ctime, mtime, version, cversion, aversion, owner, _length, children, pzxid = STAT.unpack(
        node.stat()
    )
    acl = tuple((perms, scheme, name) for perms, scheme, name in node.acl)
    data = node.data or b""
    return Seen(data, acl, czxid, mzxid, pzxid, mtime, version, cversion, aversion, owner, children)


def _parser() -> argparse.ArgumentParser:
    made = Parser(prog="python -m proof.past", description=__doc__.partition("\n")[0])
    add = made.add_argument
    add("--writes", type=whole(1), default=300_000, metavar="N", help="of all clients")
    add("--moments", type=whole(1), default=200, metavar="N", help="that are compared")
    add("--every", type=float, default=8.0, metavar="SECONDS", help="between two faults")
    add("--seed", type=int, default=1, metavar="N")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    given = _parser().parse_args(arguments)
    try:
        figures, found = run(given.writes, given.moments, given.seed, given.every)
    except (BinaryMissing, StartFailed, TimeoutError) as error:
        print(f"python -m proof.past: {error}", file=sys.stderr)
        return 2
    print(", ".join(f"{name} {value:g}" for name, value in figures._asdict().items()))
    for line in found[:50]:
        print(line)
    print("every state is the one that clients saw" if not found else f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
