"""Whether the log's requests have the outcomes that the naive ZooKeeper gives: errors, zxids, Stats, tree.

All servers of a simulation share one state machine, so a mistake in it makes no difference between them. The
naive ZooKeeper (`proof.naive`) shares no code with it, nor with what decodes requests. Pure.
"""

from collections.abc import Callable
from typing import Any

from codec.client import multi_errors
from codec.constants import ErrorCode, OpCode
from codec.jute import Reader
from codec.packets import STAT
from lab.oracle.requests import (
    CloseSession,
    Create,
    CreateContainer,
    CreateIfNotExists,
    CreateTtl,
    Multi,
    decode_write,
)
from lab.oracle.wire import Cursor
from proof import naive
from proof.naive.rules import counted
from proof.simulation.acl_reads import AclReads
from proof.simulation.features import LOOKED_AT
from proxy.state.machine import Machine
from proxy.state.outcome import Outcome
from schema.budgets import decode_rule
from schema.entry import Kind, Request, Rules, decode_carry_over, decode_close, decode_forget, decode_node_due
from schema.fixed import fixed_nodes

_STATS = "/zookeeper_stats"
_QUOTA = "/zookeeper/quota"
#: Nodes whose first children are not counted.
_FIXED = ("/", "/zookeeper")


class NaiveJudge:
    """Follows the log, one request after another."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self.model = naive_tree()
        #: Judges reads of clients under ACLs.
        self.acl_reads = AclReads(LOOKED_AT, violate)
        #: Clients' requests that were compared.
        self.compared = 0

    def entered(self, incarnation: str, clock: int) -> None:
        """An entry begins."""
        self.model.budgets.entry(incarnation, clock)

    def applied(
        self, incarnation: str, clock: int, rules: int, request: Request, outcome: Outcome, machine: Machine
    ) -> None:
        """The log has a request, and the machine its outcome."""
        self._judge(incarnation, clock, rules, request, outcome, machine)
        self.acl_reads.note(self.model)

    def _judge(
        self, incarnation: str, clock: int, rules: int, request: Request, outcome: Outcome, machine: Machine
    ) -> None:
        model = self.model
        if request.kind != Kind.CLIENT:
            self._of_proxies(incarnation, clock, request, outcome)
            model.zxid = machine.zxid  # a level may spend more of them
            return
        asked: naive.Asked | None = decode_write(request.opcode, Cursor(request.body))
        if asked is None:  # it changes nothing
            model.zxid = machine.zxid
            return
        model.identities = tuple((each.scheme, each.id) for each in request.identities)
        model.enforces_quotas = bool(rules & Rules.ENFORCE_QUOTA)
        expected = _answer(model, incarnation, request, asked, clock)
        found = _found(asked, request.opcode, outcome)
        self.compared += 1
        if (found, machine.zxid) != (expected, model.zxid):
            self._violate(
                f"{asked!r} of session {request.session_id:#x} by {model.identities} has the outcome"
                f" {found!r} at zxid {machine.zxid:#x}; that of the naive ZooKeeper is {expected!r} at"
                f" {model.zxid:#x}"
            )

    def _of_proxies(self, incarnation: str, clock: int, request: Request, outcome: Outcome) -> None:
        model = self.model
        try:
            match request.kind:
                case Kind.OPEN:
                    model.open(incarnation, request.session_id)
                case Kind.ATTACH if not outcome.err:  # the model knows no passwords
                    model.attach(incarnation, request.session_id)
                case Kind.CLOSE:
                    model.expire(request.session_id, decode_close(request.body).holder)
                case Kind.CARRY_OVER:
                    model.carry_over(decode_carry_over(request.body).old, incarnation)
                case Kind.NODE_DUE:
                    due = decode_node_due(request.body)
                    never_used = due.max_never_used_ms > 0
                    model.due(due.path, due.czxid, due.version, due.mtime, never_used=never_used)
                case Kind.FORGET:
                    model.budgets.behind.pop(decode_forget(request.body).incarnation, None)
                case Kind.BUDGET:
                    model.budgets.set(*decode_rule(request.body), incarnation, clock)
                case _:
                    return
            error = 0
        except naive.Refused as refused:
            error = int(refused.code)
        if error != outcome.err and request.kind != Kind.ATTACH:
            self._violate(
                f"{request!r} ends with error {outcome.err}, and by the naive ZooKeeper with {error}"
            )

    def compare(self, machine: Machine) -> None:
        """The tree of a machine that has applied everything must be the naive one."""
        model, nodes = self.model, machine.tree.nodes
        if different := set(nodes) ^ set(model.nodes):
            self._violate(
                f"only one of the trees has {sorted(different)}: the servers' and the naive ZooKeeper's"
            )
            return
        for path, expected in model.nodes.items():
            if path.startswith(_QUOTA) and path.endswith(_STATS):
                expected.data = counted(model.nodes, path.removeprefix(_QUOTA).removesuffix(_STATS))
            node = nodes[path]
            theirs = (STAT.unpack(node.stat()), node.data, node.acl, node.created)
            if path in _FIXED:
                continue
            if theirs != (model.stat(path), expected.data, expected.acl, expected.created):
                self._violate(
                    f"{path} is {theirs!r}, and in the naive ZooKeeper {model.stat(path)}, {expected!r}"
                )
        held = {session.id: session.incarnation for session in machine.sessions.values()}
        if held != model.sessions:
            self._violate(f"the sessions are {held}, and in the naive ZooKeeper {model.sessions}")
        if (left := dict(machine.budgets.left())) != model.budgets.left():
            self._violate(f"of budgets is left {left}, and in the naive ZooKeeper {model.budgets.left()}")


def naive_tree() -> naive.NaiveZooKeeper:
    """The naive ZooKeeper of a new tree."""
    nodes = {
        path: naive.Znode(node.data, node.acl, 0, 0, 0, 0, 0, 0, aversion=node.aversion)
        for path, node in fixed_nodes().items()
    }
    return naive.NaiveZooKeeper(nodes)


_WITH_STAT = (OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.SET_DATA, OpCode.SET_ACL)


def _answer(model: naive.NaiveZooKeeper, holder: str, request: Request, asked: naive.Asked, now: int) -> Any:
    """Error, path and Stat; of a multi the error only."""
    try:
        answer = model.ask(holder, request.session_id, asked, now)
    except naive.Refused as refused:
        return int(refused.code), None, None
    if isinstance(answer, naive.MultiAnswer):
        return int(answer.code), None, None
    return 0, answer.path, answer.stat if request.opcode in _WITH_STAT else None


def _found(asked: naive.Asked, opcode: int, outcome: Outcome) -> Any:
    """The same of what the machine has made."""
    if outcome.err or isinstance(asked, CloseSession):
        return int(outcome.err), None, None
    reader = Reader(outcome.body)
    if isinstance(asked, Multi):
        return _error_of_multi(reader), None, None
    path = stat = None
    if isinstance(asked, Create | CreateContainer | CreateTtl | CreateIfNotExists):
        path = reader.text()
    if opcode in _WITH_STAT:
        stat = STAT.unpack_from(reader.data, reader.position)
    return 0, path, stat


def _error_of_multi(reader: Reader) -> int:
    if int.from_bytes(reader.data[reader.position : reader.position + 4], signed=True) != OpCode.ERROR:
        return 0
    return next((code for code in multi_errors(reader) if code), int(ErrorCode.OK))
