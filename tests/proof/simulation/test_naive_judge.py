"""The naive ZooKeeper agrees with the machine about ACLs, quotas, Keeper's operations, nodes that expire."""

from random import Random

import pytest

from codec import client as zk
from codec.constants import ErrorCode, OpCode
from proof.simulation.features import ROOT, any_request, identity
from proof.simulation.knobs import USERS
from proof.simulation.naive_judge import NaiveJudge
from proxy.state import budgets, transaction
from proxy.state.operation import WriteOperation
from proxy.state.ops import ROWS, delete, remove_recursive, set_acl
from schema.budgets import encode_rule
from schema.entry import Identity, Kind, Request, Rules, encode_forget, encode_node_due
from tests.proxy.state.world import HOME, Open, World, request_of

_RULES = int(Rules.EXTENDED_TYPES | Rules.KEEPER | Rules.ENFORCE_QUOTA | Rules.SASL)
_OTHER = "the other server"
_COUNT = 3_000


class _Judged:
    """A machine that is given random requests, and the judge of what it does."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.judge = NaiveJudge(self.wrong.append)
        self.errors: set[int] = set()
        self._world = World(sessions=())
        self._clock = 0
        self._ahead = 3_600_000  # by how much the other server's clock is ahead
        self._chance = Random(7)
        for session in range(len(USERS)):
            self._do(request_of(Open(session + 1)))
        self._ask(zk.create(ROOT))

    def run(self) -> None:
        """Give it many, until something is wrong; then compare the trees."""
        for _ in range(_COUNT):
            if self.wrong:
                break
            self._ask(any_request(self._chance))
            if self._chance.random() < 0.05:
                self._something_is_due()
            if self._chance.random() < 0.02:
                self._another_budget()
        self.judge.compare(self._world.machine)

    def _do(self, request: Request) -> None:
        machine = self._world.machine
        self._clock += self._chance.choice((0, 1, 300, 1_000, -300))
        holder = _OTHER if request.kind == Kind.BUDGET and self._chance.random() < 0.5 else HOME
        clock = self._clock + self._ahead * (holder == _OTHER)
        machine.begin(holder, machine.applied.get(holder, 0) + 1, clock, _RULES)
        self.judge.entered(holder, clock)
        outcome = machine.execute(request, wants_reply=True)
        self.judge.applied(holder, clock, _RULES, request, outcome, machine)
        machine.end()
        self.errors.add(outcome.err)

    def _ask(self, asked: zk.Request[object]) -> None:
        user = self._chance.randrange(len(USERS))
        who = (
            Identity("ip", "10.0.0.1"),
            Identity("digest", identity(USERS[user])),
            Identity("sasl", USERS[user]),
        )
        self._do(Request(Kind.CLIENT, user + 1, asked.opcode, who, asked.body))

    def _another_budget(self) -> None:
        path = self._chance.choice((ROOT, f"{ROOT}/limited", "/"))
        rule = encode_rule(path, self._chance.choice((0, 2)), self._chance.choice((0, 9)))
        self._do(Request(Kind.BUDGET, 0, 0, (), rule))
        if self._chance.random() < 0.3:
            self._do(Request(Kind.FORGET, 0, 0, (), encode_forget(_OTHER)))
            self._ahead = self._chance.randrange(10_000_000)

    def _something_is_due(self) -> None:
        nodes = self._world.nodes
        path = self._chance.choice(sorted(path for path in nodes if path.startswith(ROOT)) or ["/zookeeper"])
        node = nodes[path]
        due = encode_node_due(path, node.version, node.mtime, node.czxid, self._chance.choice((0, 1)))
        self._do(Request(Kind.NODE_DUE, 0, 0, (), due))


def test_the_machine_does_what_the_naive_zookeeper_does() -> None:
    judged = _Judged()
    judged.run()
    assert judged.wrong == []
    assert {
        ErrorCode.NO_AUTH,
        ErrorCode.INVALID_ACL,
        ErrorCode.QUOTA_EXCEEDED,
        ErrorCode.THROTTLED_OP,
        ErrorCode.NOT_EMPTY,
        ErrorCode.BAD_VERSION,
        ErrorCode.NODE_EXISTS,
        ErrorCode.NO_NODE,
        ErrorCode.NO_CHILDREN_FOR_EPHEMERALS,
    } <= judged.errors
    assert judged.judge.compared > _COUNT


def test_the_clients_send_every_write() -> None:
    """What they do not send is never judged."""
    chance = Random(7)
    sent = {any_request(chance).opcode for _ in range(_COUNT)}
    # `mix` sends checks, in multis, and syncs; each client closes sessions; and no reconfig succeeds.
    elsewhere = {OpCode.CHECK, OpCode.SYNC, OpCode.CLOSE_SESSION, OpCode.RECONFIG}
    assert {opcode for opcode, row in ROWS.items() if isinstance(row, WriteOperation)} == sent | elsewhere


@pytest.mark.parametrize("module", [delete, set_acl, remove_recursive], ids=lambda module: module.__name__)
def test_a_permission_that_is_not_checked_is_noticed(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "demand", lambda *_arguments: None)
    judged = _Judged()
    judged.run()
    assert judged.wrong


def test_a_quota_that_is_not_enforced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction.Transaction, "check_quota", lambda *_arguments: None)
    judged = _Judged()
    judged.run()
    assert judged.wrong


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (budgets.Budget, "take"),
        (budgets.Budgets, "spent"),
        (budgets.Budgets, "enter"),
        (budgets.Budgets, "forget"),
    ],
)
def test_a_budget_that_is_not_kept_is_noticed(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, lambda *_arguments: None)
    judged = _Judged()
    judged.run()
    assert judged.wrong
