"""The feed of changes from the log and the archive, compared with the trees of random histories."""

import asyncio
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from archive.archiver.archiver import Archiver, Intervals
from archive.files.catalog import Catalog
from archive.files.store import Directory
from archive.past import feed
from codec.client import Request as ClientRequest
from codec.client import create, delete, multi, set_acl, set_data
from codec.constants import CreateMode
from codec.jute import Acl
from lab.servers.waiting import eventually
from proxy.log.follow.log_order import Apply, LogOrder
from proxy.state import capture
from proxy.state.feed import Id, id_of
from schema.entry import Kind, Request, encode_close, encode_node_due
from tests.archive.test_feed import lines_of
from tests.proxy.log.trees import Tree, asked, opened

_Nodes = dict[str, tuple[int, int, bytes]]  # versions of data and ACL, and the data


class History:
    """A tree that is written at random; what each request has made of it, by comparing all nodes."""

    def __init__(self, seed: int) -> None:
        self.tree = Tree()
        self._random = Random(seed)
        self._seen = self._made = 0
        self._order = LogOrder(self.tree.keys)
        self.machine = capture.new_machine(self.tree.store.cluster_id)
        #: The nodes after each request that has changed them, by its zxid.
        self.states: dict[int, _Nodes] = {0: self._nodes()}

    def _nodes(self) -> _Nodes:
        nodes = self.machine.tree.nodes.items()
        return {path: (node.version, node.aversion, node.data or b"") for path, node in nodes}

    def follow(self) -> None:
        """Apply what is new, request by request."""
        for events in self.tree.store.history_from(self._seen + 1):
            self._seen = events[0].kv.mod_revision
            for item in self._order.items_of(events):
                if not isinstance(item, Apply):
                    continue
                entry = item.decode()
                self.machine.begin(item.incarnation, item.number, entry.clock, entry.rules)
                for request in entry.requests:
                    before = self._nodes()
                    self.machine.execute(request)
                    if (after := self._nodes()) != before:
                        self.states[self.machine.zxid] = after
                self.machine.end()

    async def write(self, name: str) -> None:
        """One entry of a proxy: clients write, sessions come and go, nodes are due."""
        self.follow()
        random, session = self._random, self.tree.session(name)
        requests = []
        for _ in range(random.randint(1, 4)):
            kind = random.randrange(12)
            if kind < 7:
                requests.append(asked(session, self._part()))
            elif kind < 9:
                parts = [self._part()] if random.random() < 0.3 else []  # with one, most fail
                self._made += 1
                path = f"/m{self._made}"
                parts += [create(path), set_data(path, b"1"), set_data("/", b"2")]
                parts += [delete(path)] if random.random() < 0.5 else [set_data(path, b"3")]
                requests.append(asked(session, multi(parts)))
            elif kind == 9 and session in self.machine.sessions:
                requests.append(Request(Kind.CLOSE, session, 0, (), encode_close("test", "")))
            elif kind == 9:
                requests.append(opened(session))
            else:
                path = random.choice(["/c", "/t"])
                node = self.machine.tree.nodes.get(path)
                if node is None:
                    made = [create("/c", mode=CreateMode.CONTAINER), create("/c/x"), delete("/c/x")]
                    made = (
                        made
                        if path == "/c"
                        else [create("/t", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=1000)]
                    )
                    requests += [asked(session, each) for each in made]
                else:
                    due = encode_node_due(path, node.version, node.mtime, node.czxid, 1)
                    requests.append(Request(Kind.NODE_DUE, 0, 0, (), due))
        if requests:
            await self.tree.send(name, requests)

    def _part(self) -> ClientRequest[Any]:
        random = self._random
        path = random.choice(["/a", "/b", "/a/x", "/a/y", "/c", "/c/x", "/t"])
        data = random.randbytes(random.choice((0, 5, 500)))
        makes: list[Callable[[], ClientRequest[Any]]] = [
            lambda: create(path, data),
            lambda: create(path, data, 1),
            lambda: create(path + "-", data, 2),
            lambda: set_data(path, data),
            lambda: set_acl(path, [Acl(random.choice((1, 31)), "world", "anyone")]),
            lambda: delete(path),
            lambda: create("/c", data, CreateMode.CONTAINER),
            lambda: create("/t", data, CreateMode.PERSISTENT_WITH_TTL, ttl_ms=1000),
        ]
        return random.choice(makes)()

    def check(self, lines: list[dict[str, Any]]) -> None:
        """These are all changes since the beginning."""
        self.follow()
        nodes = dict(self.states[0])
        last = Id(0)
        for line in lines:
            here, path, change, after = id_of(line["id"]), line["path"], line["change"], line["version_after"]
            assert here > last, line
            assert last.part > 1 << 60 or here.zxid == last.zxid, f"a part of 0x{last.zxid:x} is missing"
            last = here
            data = b64decode(line["data_base64"]) if line["data_base64"] else (line["data"] or "").encode()
            if change == "created":
                assert path not in nodes
                nodes[path] = 0, 0, data
            elif change == "deleted":
                assert nodes.pop(path)[0] == line["version_before"]
            elif change == "set":
                nodes[path] = after, nodes[path][1], data
            else:
                nodes[path] = nodes[path][0], after, nodes[path][2]
            if here.part > 1 << 60:
                assert nodes == self.states[here.zxid], line
        changed = {id_of(line["id"]).zxid for line in lines}
        assert changed == {zxid for zxid in self.states if zxid}


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 3])
async def test_random_histories(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the log, and once that is truncated from the archive: each change once and in order, from any
    place."""
    history, random = History(seed), Random(seed)
    tree, store = history.tree, Directory(str(tmp_path / "archive"))
    await tree.make("a", "b")
    names, lines = ["a", "b"], list[dict[str, Any]]()
    for part in range(4):
        for number in range(40):
            await history.write(random.choice(names))
            if number == 12:  # a proxy starts again
                await tree.go(names.pop(0))
                names.append(f"r{part}")
                await tree.come(names[-1])
        await _archived(tree, store, history.machine.zxid)
        lines, _ = await lines_of(tree, "0x0", monkeypatch, str(tmp_path / "archive"))
        history.check(lines)
        for since in random.sample(range(len(lines)), 4):
            found, _ = await lines_of(tree, lines[since]["id"], monkeypatch, str(tmp_path / "archive"))
            assert found == lines[since + 1 :]
        await tree.snapshot(names[0])
    with pytest.raises(feed.Gone):
        await lines_of(tree, "0x0", monkeypatch)
    operations = {line["operation"] for line in lines}
    assert {"CREATE", "SET_DATA", "SET_ACL", "DELETE", "MULTI", "CLOSE", "NODE_DUE"} <= operations


async def _archived(tree: Tree, store: Directory, zxid: int) -> None:
    """Run an archiver until it has everything."""
    archiving = asyncio.create_task(
        Archiver(tree.etcd, tree.keys, store, intervals=Intervals(put=0.01)).run()
    )

    async def reached() -> bool:
        runs = Catalog(store.list()).runs
        return bool(runs) and runs[-1].end.zxid >= zxid

    await eventually(reached, "it is archived", 60)
    archiving.cancel()
    await asyncio.gather(archiving, return_exceptions=True)
