"""The state of a tree in etcd that follows another zketcd: the source's znodes, and all else of its own.

The follower has one tree in memory, the source's. The copy's sessions belong to no proxy, its entries are
counted by themselves, and its budgets are filled by the times of its own entries.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from typing_extensions import override

from codec.longs import unsigned
from proxy.state.budgets import Budgets
from proxy.state.digest import Digest, session_hash
from proxy.state.followed import session_of_value
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.sessions import NO_HOLDER, Session
from schema.budgets import BudgetsValue, Rule, encode_rule
from schema.entry import Kind, Request, encode_level, encode_terms
from schema.followed import Followed


class Kept(NamedTuple):
    """What a copy has besides znodes."""

    zxid: int
    level: int
    sessions: Iterable[Session]
    budgets: BudgetsValue
    entries: int = 0
    applied: Mapping[str, int] = {}
    checkpoints: Iterable[tuple[int, int]] = ()


def kept_of(copy: Machine) -> Kept:
    """Of a copy that was loaded from etcd."""
    return Kept(
        copy.zxid,
        copy.level,
        list(copy.sessions.values()),
        copy.budgets.value,
        copy.entries,
        dict(copy.applied),
        list(copy.checkpoints),
    )


def new_of(source: Machine, counted: Kept | None = None) -> Kept:
    """Of a copy that begins as the source is now. `counted`: it replaces a copy that has counted entries."""
    sessions = [
        Session(each.id, each.timeout_ms, each.password_hash, NO_HOLDER) for each in source.sessions.values()
    ]
    # The proxies that send to the source's log are not the copy's.
    budgets = source.budgets.value._replace(offsets={})
    kept = Kept(source.zxid, source.level, sessions, budgets)
    if counted is None:
        return kept
    return kept._replace(entries=counted.entries, applied=counted.applied, checkpoints=counted.checkpoints)


class Copy(Machine):
    """The state of the copy, as long as the source's has the same zxid whenever this one is looked at."""

    def __init__(self, source: Machine, cluster_id: int, kept: Kept) -> None:
        """`cluster_id` is that of the copy's etcd."""
        super().__init__(cluster_id, at_level=kept.level)
        self._source = source
        self.tree = source.tree
        self.digest = _Digest(self.budgets, source)
        self.transaction.work_on(self.tree, self.sessions, self.digest)
        self.zxid = kept.zxid
        self.undone = source.undone
        self.entries = kept.entries
        self.applied.update(kept.applied)
        self.checkpoints.extend(kept.checkpoints)
        self.budgets.load(kept.budgets)
        for session in kept.sessions:
            self._open(session)

    def followed(self, changes: Followed) -> None:
        """Take over what the source has changed: its znodes are in place."""
        for session_id in changes.closed:
            self.digest.take_session(self.sessions.pop(session_id))
        for value in changes.opened:
            self._open(session_of_value(value))
        self.zxid = changes.zxid

    def _open(self, session: Session) -> None:
        self.sessions[session.id] = session
        self.digest.add_session(session)

    def settings(self, attached: Iterable[int]) -> list[Request]:
        """Requests that give the copy the source's level, budgets, and timeouts of these sessions."""
        source = self._source
        levels = range(self.level + 1, source.level + 1)
        requests = [Request(Kind.LEVEL, 0, 0, (), encode_level(level)) for level in levels]
        ours, theirs = self.budgets.rules, source.budgets.rules
        if ours != theirs:
            gone = {rule.path for rule in ours} - {rule.path for rule in theirs}
            new = [Rule(path, 0, 0) for path in sorted(gone)] + [rule for rule in theirs if rule not in ours]
            requests += [Request(Kind.BUDGET, 0, 0, (), encode_rule(*rule)) for rule in new]
        for session_id in sorted(attached):
            session, wanted = self.sessions.get(session_id), source.sessions.get(session_id)
            if session is not None and wanted is not None and session.timeout_ms != wanted.timeout_ms:
                body = encode_terms(wanted.timeout_ms, session.password_hash)
                requests.append(Request(Kind.ATTACH, session_id, 0, (), body))
        return requests


class _Digest(Digest):
    """Of the source's znodes, and of the copy's sessions and budgets."""

    __slots__ = ("_source",)

    def __init__(self, budgets: Budgets, source: Machine) -> None:
        super().__init__(budgets)
        self._source = source

    @override
    def without_budgets(self, nodes: Mapping[str, Node], pause: Pause = NO_PAUSE) -> int:
        return super().without_budgets({}, pause) + digest_of(self._source)


def digest_of(machine: Machine) -> int:
    """The digest of the nodes without sessions, as ZooKeeper's, unsigned."""
    total = machine.digest.without_budgets(machine.tree.nodes)
    return unsigned(total - sum(map(session_hash, machine.sessions.values())))
