"""Random pipelined histories on one or two committers, on a fake etcd that loses Txns and answers.

Replayed in the order of their zxids on the naive ZooKeeper, every answer, every event and the tree must be
what that one says. A seed that fails is a case: run it alone by its number.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from codec.constants import ErrorCode
from codec.jute import Acl
from proxy.batch import Request
from proxy.etcd.model import Put, Txn, TxnResult
from schema.values import OPEN_ACL, SessionValue, encode_session
from tests.fakes.etcd import Fate
from tests.proxy import naive
from tests.proxy.naive import (
    Asked,
    Check,
    CloseSession,
    Create,
    CreateMortal,
    Delete,
    DeleteContainer,
    Multi,
    SetAcl,
    SetData,
)
from tests.proxy.shell import SESSIONS, Client, Shell, until
from tests.proxy.world import (
    INCARNATION,
    KEYS,
    Proxy,
    Store,
    answer_of,
    assert_same_tree,
    naive_answer,
    naive_tree,
)

_NOW = 5000  # ms; the time stands still
_SEEDS = 60
_OTHER_ACL = (Acl(31, "world", "anyone"), Acl(1, "ip", "10.0.0.1"))
_WIDE = [f"/wide/{number}" for number in range(150)]
# Of a Stat: cversion, numChildren, pzxid. With two proxies those of a setData may be of just before (README).
_OF_CHILDREN = (5, 9, 10)
_CHILD = 4  # the event that the naive ZooKeeper tells for the parent
_REQUESTS: dict[str, float] = {
    "one": 64,
    "acl": 8,
    "multi": 18,
    "many": 2,
    "new": 1,
    "container": 1,
    "close": 0.5,
    "hot": 5,
}
_PARTS: dict[str, float] = {"create": 25, "sequential": 15, "delete": 18, "set": 27, "mortal": 5, "check": 10}
_FIELDS = (
    *("acl", "aversion", "counter_mod", "created", "ctime", "czxid", "data", "explicit_czxid"),
    *("mod", "mtime", "mzxid", "owner", "pzxid", "version"),
)

Part = Create | CreateMortal | Delete | SetData | Check


class SlowClient(Client):
    """Takes some turns of the loop for each Txn."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        super().__init__(store)
        self._chance = chance

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        for _ in range(self._chance.choice((0, 1, 3, 10, 30))):
            await asyncio.sleep(0)
        return await super().txn(txn, timeout)


class Program:
    """What clients ask for, at random: mostly of a few nodes that all share."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.directories = ["/a", "/b", "/a/c"][: chance.choice((1, 2, 3))]
        leaves = "xyz"[: chance.choice((1, 3))]
        self._paths = [*self.directories, *(f"{path}/{name}" for path in self.directories for name in leaves)]

    def ask(self) -> Asked:
        """Anything."""
        chance = self._chance
        kind = _draw(chance, _REQUESTS)
        if kind == "acl":
            acl, version = chance.choice((OPEN_ACL, _OTHER_ACL)), chance.choice((-1, -1, 0, 1))
            return SetAcl(chance.choice(self._paths), acl, version)
        if kind == "multi":
            return Multi(tuple(self._single() for _ in range(chance.choice((1, 2, 3, 5)))))
        if kind == "many":  # more guards than a chain of etcd's holds
            version = chance.choice((-1, 0))
            return Multi(tuple(SetData(path, b"", version) for path in chance.sample(_WIDE, 100)))
        if kind == "new":
            return Multi(tuple(map(Create, _WIDE)))
        if kind == "container":
            return DeleteContainer(chance.choice(self._paths))
        if kind == "close":
            return CloseSession()
        if kind == "hot":
            return SetData(chance.choice(self._paths[:3]), b"h")
        while isinstance(single := self._single(), Check):
            pass
        return single

    def _single(self) -> Part:
        chance = self._chance
        path = chance.choice(self._paths)
        data = chance.choice((b"", b"x", None, b"%d" % chance.randrange(99)))
        version = chance.choice((-1, -1, -1, 0, 1, 2))
        kind = _draw(chance, _PARTS)
        if kind == "create":
            acl = chance.choice((OPEN_ACL, OPEN_ACL, _OTHER_ACL))
            return Create(path, data, acl, chance.choice((0, 0, 1)))
        if kind == "sequential":
            return Create(f"{chance.choice(self._paths)}/s", data, OPEN_ACL, chance.choice((2, 2, 3)))
        if kind == "delete":
            return Delete(path, version)
        if kind == "set":
            return SetData(path, data, version)
        if kind == "mortal":
            return CreateMortal(path, chance.choice((None, 1000)), data, sequential=chance.random() < 0.2)
        return Check(path, version)


def _draw(chance: random.Random, weights: dict[str, float]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]


class History:
    """One run: proxies, their sessions, and what was told."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = Store(SESSIONS)
        count = self.chance.choice((1, 1, 2))
        incarnations = (INCARNATION, "beef")[:count]
        for name in incarnations:
            self.store.txn(Txn((), [Put(KEYS.proxy(name), b"")]))
        self._host = {session: session > len(SESSIONS) // 2 and count == 2 for session in SESSIONS}
        for session, second in self._host.items():
            if second:
                record = encode_session(SessionValue("hash", 4000, incarnations[1]))
                self.store.txn(Txn((), [Put(KEYS.session(session), record, session)]))
        self.shells = []
        for name in incarnations:
            with mock.patch("tests.proxy.shell.Client", lambda store: SlowClient(store, self.chance)):
                self.shells.append(Shell(self.store, name))
        self._asked: dict[int, list[Request]] = {session: [] for session in SESSIONS}
        self._told: list[tuple[int, int, int, Asked, Request]] = []

    def submit(self, session: int, asked: Asked) -> None:
        """Submit a request to the session's proxy."""
        request = self.shells[self._host[session]].submit(session, asked)
        self._asked[session].append(request)
        answer = request.done

        def done(request: Request, zxid: int) -> None:
            self._told.append((zxid, len(self._told), session, asked, request))
            answer(request, zxid)

        request.done = done

    async def play(self) -> None:
        """All of it, until everything is answered and seen."""
        chance, shells = self.chance, self.shells
        program = Program(chance)
        for path in (*program.directories, "/wide"):
            self.submit(1, Create(path))
        active = chance.sample(SESSIONS, chance.choice((2, 3, 8)))
        faulty = chance.random() < 0.4
        for _ in range(chance.choice((3, 10, 30))):
            if faulty:
                self._strike()
            for session in chance.sample(active, chance.randrange(1, len(active) + 1)):
                for _ in range(chance.choice((1, 2, 10, 40))):
                    self.submit(session, program.ask())
            if chance.random() < 0.1:
                for shell in shells:
                    shell.following.clear()
            for _ in range(chance.choice((0, 1, 5, 20, 80))):
                await asyncio.sleep(0)
            for shell in shells:
                shell.following.set()
            if chance.random() < 0.2:
                await until(lambda: sum(shell.committer.outstanding for shell in shells) < 20)
        for shell in shells:
            await shell.settle()
        self.store.apply_late()
        await until(lambda: all(shell.mirror.revision == self.store.revision for shell in shells))

    def _strike(self) -> None:
        chance = self.chance
        for shell in self.shells:
            if chance.random() < 0.3:
                fates = (Fate.LOST, Fate.ANSWER_LOST, Fate.LATE)
                shell.client.fates.extend(chance.choice(fates) for _ in range(chance.randrange(3)))
            if chance.random() < 0.3:
                shell.client.arrivals.extend(chance.random() < 0.5 for _ in range(2))

    def check(self) -> None:
        """Hold everything against the naive ZooKeeper, and the mirrors against one loaded afresh."""
        for session, requests in self._asked.items():
            told = [(request, zxid) for zxid, _, whose, _, request in self._told if whose == session]
            assert [request for request, _ in told] == requests, "answers out of order"
            assert told == sorted(told, key=lambda pair: pair[1]), "a zxid that goes back"
        model = naive_tree(SESSIONS)
        for zxid, _, session, asked, request in sorted(self._told, key=lambda told: told[:2]):
            got = answer_of(request, zxid)
            if got == ErrorCode.SESSION_EXPIRED and session not in model.sessions:
                continue
            wanted = naive_answer(model, session, asked, zxid, _NOW)
            if len(self.shells) == 2:
                got, wanted = _without_children(got), _without_children(wanted)
            assert got == wanted, f"session {session} at zxid {zxid} asked {asked}"
        fresh = Proxy(self.store)
        wanted_events = Counter((int(kind), path) for kind, path in model.events if kind != _CHILD)
        for shell in self.shells:
            assert_same_tree(shell, model)  # type: ignore[arg-type]
            for path, node in fresh.mirror.tree.nodes.items():
                known = shell.mirror.tree.nodes[path]
                for field in _FIELDS:
                    assert getattr(known, field) == getattr(node, field), (path, field)
            assert Counter((int(kind), path) for kind, path in shell.watches.fired) == wanted_events
            assert shell.committer.refused == 0, "a Txn that etcd does not take"
            assert shell.committer.outstanding == 0


def _without_children(answer: Any) -> Any:
    if isinstance(answer, naive.MultiAnswer):
        return answer._replace(answers=[_without_children(part) for part in answer.answers])
    if isinstance(answer, naive.Answer) and answer.stat:
        return answer.path, [value for place, value in enumerate(answer.stat) if place not in _OF_CHILDREN]
    return answer


@pytest.fixture(autouse=True)
def _time_stands_still() -> Iterator[None]:
    with (
        mock.patch("proxy.committer.time.time_ns", return_value=_NOW * 1_000_000),
        mock.patch("proxy.outcome._RETRY", 0.0005),
    ):
        yield


@pytest.mark.parametrize("seed", range(_SEEDS))
async def test_a_history_is_what_zookeeper_would_have_answered(seed: int) -> None:
    history = History(seed)
    await history.play()
    history.check()
    for shell in history.shells:
        await shell.tasks.close()
