"""Whether reads under ACLs are answered as by the naive ZooKeeper at the zxid of the answer. Pure.

The log has no reads, so what it has made of the nodes that they look at is kept, by zxid.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from codec import client as zk
from codec.constants import ErrorCode, OpCode, Perms
from codec.jute import Acl, Reader
from proof import naive
from proof.history import Reply
from proof.naive.rules import permit
from proof.simulation.packets import Look, asked


class _Version(NamedTuple):
    """A node from a zxid on."""

    zxid: int
    node: naive.Znode | None  # None: it is not there
    stat: naive.Stat = (0,) * 11
    names: Sequence[str] = ()  # of its children, in order


class AclReads:
    """The versions of some nodes of a naive ZooKeeper, with which reads are compared."""

    def __init__(self, paths: Iterable[str], violate: Callable[[str], None]) -> None:
        self._violate = violate
        self._versions = {path: [_Version(0, None)] for path in paths}
        #: Answers that were judged, and those of them that are refusals.
        self.judged = self.refused = 0

    def note(self, model: naive.NaiveZooKeeper) -> None:
        """Keep what the model's last request has made of the nodes."""
        for path, versions in self._versions.items():
            node = model.nodes.get(path)
            if node is not versions[-1].node:  # the model changes no node: it makes another one
                stat = (model.stat(path), model.children(path)) if node else ()
                versions.append(_Version(model.zxid, node, *stat))

    def judge(self, look: Look, answer: Reply) -> None:
        """Compare a client's answer with the version at its zxid."""
        versions = self._versions[look.path]
        zxid = answer.zxid or 0
        version = versions[bisect_right(versions, zxid, key=lambda version: version.zxid) - 1]
        expected, found = _expected(look, version), _found(look, answer)
        self.judged += 1
        self.refused += answer.error == ErrorCode.NO_AUTH
        if found != expected:
            self._violate(
                f"{look!r} is answered at zxid {zxid:#x} with {found!r}; the naive ZooKeeper's answer is"
                f" {expected!r}"
            )


def _expected(look: Look, version: _Version) -> Any:
    """Error, and what the node has."""
    _, node, stat, names = version
    if node is None:
        return int(ErrorCode.NO_NODE), None
    try:
        is_of_acl = look.opcode == OpCode.GET_ACL
        permit(look.identities, node, Perms.READ | Perms.ADMIN if is_of_acl else Perms.READ)
    except naive.Refused as refused:
        return int(refused.code), None
    match look.opcode:
        case OpCode.GET_DATA:
            return 0, (node.data or b"", stat)
        case OpCode.GET_CHILDREN2:
            return 0, (names, stat)
    return 0, _shown(look, node)


def _shown(look: Look, node: naive.Znode) -> tuple[Acl, ...]:
    """Its ACL. Only who has ADMIN gets the hashes of passwords."""
    try:
        permit(look.identities, node, Perms.ADMIN)
    except naive.Refused:
        return tuple(
            entry._replace(id=entry.id.partition(":")[0] + ":x") if entry.scheme == "digest" else entry
            for entry in node.acl
        )
    return node.acl


def _found(look: Look, answer: Reply) -> Any:
    """The same of an answer."""
    if answer.error:
        return answer.error, None
    match asked(look).read(Reader(answer.data or b"")):
        case zk.Data(data, stat):
            return 0, (data, tuple(stat))
        case zk.Children(names, stat):
            return 0, (sorted(names), tuple(stat))
        case zk.NodeAcl(acl):
            return 0, acl
