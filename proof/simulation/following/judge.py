"""Whether the tree in etcd is the source's, after each commit while it follows; and who may serve it.

It reads the commits with code of its own: which writer holds the fence, which changes an entry has, and to
which transaction they lead. What it has then must be the source's tree after it, in every field.
Machines of processes are compared with the same trees.
"""

from collections.abc import Callable, Mapping
from typing import Any

from proof.simulation.etcd import Store
from proof.simulation.following import zk_format as zk
from proof.simulation.following.source import Moment, Source
from proof.simulation.following.zk_format import Node
from proof.simulation.proxies import PREFIX
from proxy.etcd.model import DELETE, Get
from proxy.state.machine import Machine
from schema.entry import Kind, decode_entry
from schema.errors import ForeignKey
from schema.followed import Followed, decode_followed
from schema.json_values import unpack_json
from schema.keys import Keyspace
from schema.keys import Kind as KeyKind
from schema.pages import decode_nodes, decode_sessions
from schema.record import TreeRecord, decode_record
from schema.znode import Znode


class Judge:
    """Follows the commits of etcd up to the cut-over."""

    def __init__(self, source: Source, store: Store, violate: Callable[[str], None], *, keeps: bool) -> None:
        """`keeps`: sessions are kept at the cut-over."""
        self.violate = violate
        self.zxid = 0  # of the tree in etcd
        #: Whether the tree is complete, which proxies may serve from then on.
        self.finished = False
        #: The bases that were written: the first one, and checkpoints.
        self.bases = 0
        #: Called with the zxid of each new base that continues nothing.
        self.on_begin: Callable[[int], None] = lambda _zxid: None
        #: By the name of a host: the zxid that its machine has reached.
        self.reached: dict[str, int] = {}
        self._keeps = keeps
        self._source = source
        self._store = store
        self._keys = Keyspace(PREFIX)
        self._nodes: dict[str, Node] = {}
        self._sessions: dict[int, int] = {}
        self._writer = ""  # whose entries count
        self._number = 0  # of its last entry
        self._record: TreeRecord | None = None
        self._leads_to: dict[bytes, int] = {}  # the zxid after each entry that is in etcd

    @property
    def follows(self) -> bool:
        """Whether there is a tree that follows: proxies may stand by."""
        return self.bases > 0

    def committed(self, events: list[Any]) -> None:
        """A revision of etcd."""
        if self.finished:
            return
        puts = {event.kv.key: event.kv.value for event in events if event.type != DELETE}
        keys = self._keys
        if keys.follower in puts:
            self._writer, self._number = puts[keys.follower].decode(), 0
        for event in events:
            if event.type == DELETE:
                self._deleted(event.kv.key)
        record = decode_record(puts[keys.tree]) if keys.tree in puts else None
        if record is not None and keys.follower not in puts:
            self._recorded(record)
        position = None
        if keys.follows in puts:
            position = unpack_json(puts[keys.follows], "the position")
        moved = False
        for key, value in puts.items():
            try:
                kind, writer, number = keys.parse(key)
            except ForeignKey:
                continue
            if kind is KeyKind.PROXY:
                self.violate(f"proxy {writer} has registered before the tree is complete")
            elif kind is KeyKind.ENTRY:
                self._entry(writer, number, value, position, record)
                moved = True
        if position is None:
            return
        if not moved:
            self._based(position)
        elif record is None:
            self._compare("the entries in etcd", self._source.moments.get(self.zxid))
        if position["zxid"] != self.zxid:
            self.violate(f"the position is {position['zxid']:#x}, and the tree is at {self.zxid:#x}")

    # -- commits ---------------------------------------------------------------------------------------------

    def _recorded(self, record: TreeRecord) -> None:
        """A load has begun, a base is named, or the tree is complete."""
        assert record.current is not None
        if record.current.writer != self._writer and not record.current.node_pages:
            self._writer, self._number = record.current.writer, 0
        self._record = record

    def _based(self, position: Mapping[str, Any]) -> None:
        """A snapshot of the state, from which it continues."""
        record, keys, store = self._record, self._keys, self._store
        if record is None or record.current is None or position["base"] != record.current.name:
            self.violate("the position names another base than the record")
            return
        if record.current.writer != self._writer:
            self.violate(f"{record.current.writer} has written a base under the fence of {self._writer}")
        zxid = record.current.zxid
        pages = store.range(Get(*keys.snapshot(record.current.name))).kvs
        nodes, sessions = {}, {}
        for pair in pages:
            kind = pair.key.rsplit(b"/", 2)[-2]
            if kind == b"nodes":
                nodes.update({path: _node(znode) for path, znode in decode_nodes(pair.value)})
            elif kind == b"sessions":
                sessions.update({each.session_id: each.timeout_ms for each in decode_sessions(pair.value)})
        begins = not self.bases
        if begins:
            self._nodes, self._sessions, self.zxid = nodes, sessions, zxid
            self.on_begin(zxid)
        self.bases += 1
        if (zxid, nodes, sessions) != (self.zxid, self._nodes, self._sessions):
            self.violate(f"a checkpoint is not the tree at {self.zxid:#x}; it says {zxid:#x}")
        self._compare("the base", self._source.moments.get(zxid))

    def _entry(
        self,
        writer: str,
        number: int,
        value: bytes,
        position: Mapping[str, Any] | None,
        record: TreeRecord | None,
    ) -> None:
        if (writer, number) != (self._writer, self._number + 1):
            self.violate(
                f"entry {number} of {writer} was appended; the fence is that of {self._writer}, whose last"
                f" entry is {self._number}"
            )
        self._number = number
        if position is None:
            self.violate(f"entry {number} of {writer} has no position with it")
        requests = decode_entry(value).requests
        if [request.kind for request in requests] != [Kind.FOLLOWED]:
            self.violate(f"entry {number} of {writer} is no change of a source")
            return
        changes = decode_followed(requests[0].body)
        if changes.after != self.zxid:
            self.violate(f"an entry changes the tree at {changes.after:#x}, but that is at {self.zxid:#x}")
        self._leads_to[self._keys.entry(writer, number)] = changes.zxid
        if record is not None:
            self._finish(changes, record)
            return
        self._apply(changes)

    def _deleted(self, key: bytes) -> None:
        """An entry may go when the base that the record names has it."""
        zxid = self._leads_to.pop(key, 0)
        base = self._record.current.zxid if self._record is not None and self._record.current else 0
        if zxid > base:
            self.violate(f"the entry up to {zxid:#x} is deleted, and the snapshot has the tree at {base:#x}")

    def _apply(self, changes: Followed) -> None:
        for path in changes.deleted:
            if self._nodes.pop(path, None) is None:
                self.violate(f"the entry up to {changes.zxid:#x} deletes {path}, which is not there")
        self._nodes.update({path: _node(znode) for path, znode in changes.nodes})
        for path, znode in changes.stats:
            self._nodes[path] = _node(znode)._replace(data=self._nodes[path].data)
        for session_id in changes.closed:
            self._sessions.pop(session_id, None)
        self._sessions.update({each.session_id: each.timeout_ms for each in changes.opened})
        self.zxid = changes.zxid

    def _finish(self, changes: Followed, record: TreeRecord) -> None:
        """The last entry: the sessions end, or stay, in an epoch of their own."""
        if not record.complete:
            self.violate("an entry comes with a record that is not complete")
        last = self._source.zxid
        if self.zxid != last:
            self.violate(f"the cut-over is at {self.zxid:#x}, and the source's last transaction is {last:#x}")
        self._apply(changes)
        if self.zxid != ((last >> 32) + 1) << 32:
            self.violate(f"zxids go on at {self.zxid:#x} behind {last:#x}, not with the next epoch")
        self._source.cut_over(self.zxid, keeps=self._keeps)
        self._compare("the tree at the cut-over", self._source.moments[self.zxid])
        self.finished = True

    # -- comparisons -----------------------------------------------------------------------------------------

    def _compare(self, who: str, moment: Moment | None) -> None:
        self.compare(who, self.zxid, self._nodes, self._sessions, moment)

    def compare(
        self,
        who: str,
        zxid: int,
        nodes: Mapping[str, Node],
        sessions: Mapping[int, int],
        moment: Moment | None,
    ) -> None:
        """A tree must be the source's after a transaction."""
        if moment is None:
            self.violate(f"{who}: {zxid:#x} is no transaction of the source's")
            return
        for difference in zk.differences(f"{who} at {zxid:#x}", nodes, moment.nodes):
            self.violate(difference)
        if dict(sessions) != moment.sessions:
            self.violate(f"{who} at {zxid:#x} has sessions {sessions}, and not {moment.sessions}")

    def applied(self, who: str, machine: Machine) -> None:
        """A machine of a process has applied an entry, or is about to append one."""
        self.reached[who] = machine.zxid
        moment = self._source.moments.get(machine.zxid)
        nodes = {path: Node(*node.fields()) for path, node in machine.tree.nodes.items()}
        sessions = {session.id: session.timeout_ms for session in machine.sessions.values()}
        self.compare(who, machine.zxid, nodes, sessions, moment)


def _node(znode: Znode) -> Node:
    return Node(*znode.fields())
