"""A machine and the naive ZooKeeper side by side: the same requests, as a client's bytes and as objects."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from codec.constants import ErrorCode, OpCode
from codec.jute import OPEN_ACL, Acl, Reader, pack_strings
from codec.packets import MULTI_HEADER, STAT
from lab.oracle.requests import CloseSession, Create, Delete, Multi, SetData, encode_body, opcode
from lab.oracle.requests import Request as AnyRequest
from proof import naive
from proxy.state.capture import Captured, load, new_machine, pages
from proxy.state.digest import whole
from proxy.state.machine import Machine
from proxy.state.node import Node, child_names
from proxy.state.operation import Reading
from proxy.state.ops import FEATURES
from proxy.state.ops.features import system_nodes
from proxy.state.outcome import Outcome
from proxy.state.sessions import hash_of
from proxy.state.watches import TreeEvent, WatchTable
from schema.entry import Identity, Kind, Request, Rules, encode_carry_over, encode_close, encode_terms
from schema.paths import parent_of
from schema.znode import Znode, pack_stat

HOME = "home"
CLUSTER = 7
NOBODY: tuple[Identity, ...] = (Identity("ip", "127.0.0.1"),)
RULES = int(Rules.EXTENDED_TYPES | Rules.KEEPER)
PASSWORD = b"0123456789abcdef"


# -- what proxies say of sessions ----------------------------------------------------------------------------


class Open(NamedTuple):
    session: int


class Attach(NamedTuple):
    session: int


class Expire(NamedTuple):
    session: int
    holder: str = ""


class CarryOver(NamedTuple):
    old: str


class Ask(NamedTuple):
    session: int
    asked: naive.Asked


Said: TypeAlias = Ask | Open | Attach | Expire | CarryOver


def request_of(said: Said, timeout_ms: int = 4000) -> Request:
    """As the log has it."""
    match said:
        case Ask(session, asked):
            return client(session, *encode(asked))
        case Open(session):
            return Request(Kind.OPEN, session, 0, (), encode_terms(timeout_ms, hash_of(PASSWORD)))
        case Attach(session):
            return Request(Kind.ATTACH, session, 0, (), encode_terms(timeout_ms, hash_of(PASSWORD)))
        case Expire(session, holder):
            return Request(Kind.CLOSE, session, 0, (), encode_close("silent", holder))
        case CarryOver(old):
            return Request(Kind.CARRY_OVER, 0, 0, (), encode_carry_over(old))


def client(session: int, opcode: int, body: bytes, identities: tuple[Identity, ...] = NOBODY) -> Request:
    """A client's request."""
    return Request(Kind.CLIENT, session, opcode, identities, body)


def encode(asked: naive.Asked) -> tuple[int, bytes]:
    """Opcode and body of a request, as a client sends it; creates are create2."""
    sent = _with_stat(asked)
    return opcode(sent), encode_body(sent)


def _with_stat(asked: AnyRequest) -> AnyRequest:
    if isinstance(asked, Multi):
        return Multi(tuple(map(_with_stat, asked.ops)))
    return asked._replace(with_stat=True) if isinstance(asked, Create) else asked


# -- answers -------------------------------------------------------------------------------------------------


def answer_of(said: Said, outcome: Outcome) -> Any:
    """An outcome as the naive model gives it: Answer, MultiAnswer or the error's code."""
    if outcome.err:
        assert outcome.body == b""
        return ErrorCode(outcome.err)
    if not isinstance(said, Ask):
        return None
    asked = said.asked
    reader = Reader(outcome.body)
    answer: Any
    if isinstance(asked, Multi):
        answer = _multi_answer(asked, reader)
    elif isinstance(asked, CloseSession):
        answer = naive.Answer()
    else:
        answer = _read(opcode(_with_stat(asked)), reader)
    assert reader.remaining == 0
    return answer


def _multi_answer(multi: Multi, reader: Reader) -> naive.MultiAnswer:
    answers: list[naive.Answer] = []
    codes: list[int] = []
    for part in multi.ops:
        kind, done, err = MULTI_HEADER.unpack_from(reader.data, reader.position)
        reader.position += MULTI_HEADER.size
        assert not done
        if kind == OpCode.ERROR:
            codes.append(reader.int())
            assert codes[-1] == err
            continue
        asked = opcode(_with_stat(part))
        told = asked in (OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
        assert (kind, err) == (OpCode.CREATE2 if told else asked, 0)
        answers.append(_read(asked, reader))
    assert reader.data[reader.position :] == MULTI_HEADER.pack(-1, True, -1)
    reader.position += MULTI_HEADER.size
    if not codes:
        return naive.MultiAnswer(answers, None, ErrorCode.OK)
    assert answers == []
    place = next(place for place, code in enumerate(codes) if code)
    assert all(code == ErrorCode.RUNTIME_INCONSISTENCY for code in codes[place + 1 :])
    return naive.MultiAnswer([], place, ErrorCode(codes[place]))


_WITH_PATH = (OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)


def _read(opcode: int, reader: Reader) -> naive.Answer:
    path = stat = None
    if opcode in _WITH_PATH or opcode == 502:
        path = reader.text()
    if opcode in (*_WITH_PATH, OpCode.SET_DATA, OpCode.SET_ACL):
        stat = STAT.unpack_from(reader.data, reader.position)
        reader.position += STAT.size
    return naive.Answer(path, stat)


# -- the two of them -----------------------------------------------------------------------------------------


def naive_answer(model: naive.NaiveZooKeeper, holder: str, said: Said, now: int) -> Any:
    """The naive model's answer, in the form of `answer_of`."""
    try:
        match said:
            case Ask(session, asked):
                return model.ask(holder, session, asked, now)
            case Open(session):
                model.open(holder, session)
            case Attach(session):
                model.attach(holder, session)
            case Expire(session, expected):
                model.expire(session, expected)
            case CarryOver(old):
                model.carry_over(old, holder)
    except naive.Refused as refused:
        return refused.code
    return None


class World:
    """A machine that is given entries, one incarnation's after another's."""

    def __init__(self, sessions: Sequence[int] = (1, 2, 3), machine: Machine | None = None) -> None:
        self.machine = new_machine(CLUSTER) if machine is None else machine
        self.machine.transaction.watched = True
        self.events: list[TreeEvent] = []  # of all requests so far
        self.outcomes: list[Outcome] = []  # of the last entry
        self.rules = RULES
        self.identities = NOBODY
        self.watches = WatchTable()
        self.system: dict[str, Node] = {}
        if sessions:
            self.enter(*(request_of(Open(session)) for session in sessions))

    def enter(
        self, *requests: Request, holder: str = HOME, clock: int = 1000, own: bool = True
    ) -> list[Outcome]:
        """Apply an entry."""
        machine = self.machine
        machine.begin(holder, machine.applied.get(holder, 0) + 1, clock, self.rules)
        self.outcomes = []
        for request in requests:
            self.outcomes.append(machine.execute(request, wants_reply=own))
            self.events += machine.transaction.events
            self.watches.fire(machine.transaction.events, machine.zxid)
        machine.end()
        return self.outcomes

    def do(self, *asked: naive.Asked, session: int = 1, clock: int = 1000) -> list[Any]:
        """Apply an entry of one session's requests; their answers."""
        said = [Ask(session, single) for single in asked]
        requests = [request_of(single)._replace(identities=self.identities) for single in said]
        outcomes = self.enter(*requests, clock=clock)
        return [answer_of(single, outcome) for single, outcome in zip(said, outcomes, strict=True)]

    @property
    def nodes(self) -> dict[str, Node]:
        return self.machine.tree.nodes

    @property
    def fired(self) -> list[tuple[int, str]]:
        """Type and path of the events so far."""
        return sampled(self.events)

    @property
    def reading(self) -> Reading:
        """What reads work on."""
        return Reading(self.machine.tree, self.watches, self.system)


def with_keeper(world: World) -> None:
    """Let the server tell of Keeper's extensions."""
    world.system.update(system_nodes(FEATURES, 1000, ""))


def assert_same_tree(machine: Machine, model: naive.NaiveZooKeeper) -> None:
    """The machine shows exactly the naive model's nodes, Stats, children, ephemerals, sessions and zxid."""
    tree = machine.tree
    assert set(tree.nodes) == set(model.nodes)
    owned: dict[int, set[str]] = {}
    for path, expected in model.nodes.items():
        node = tree.nodes[path]
        if path not in ("/", "/zookeeper"):  # whose first children are not counted
            assert STAT.unpack(node.stat()) == model.stat(path), path
        assert (node.data, node.acl, node.created) == (expected.data, expected.acl, expected.created), path
        assert sorted(child_names(node)) == model.children(path), path
        assert sorted(Reader(node.names()).strings() or ()) == model.children(path), path  # type: ignore[type-var]
        if expected.owner:
            owned.setdefault(expected.owner, set()).add(path)
    assert tree.ephemerals == owned
    assert set(tree.expiring) == {path for path, node in model.nodes.items() if node.mortal}
    assert {session.id: session.incarnation for session in machine.sessions.values()} == model.sessions
    assert machine.zxid == model.zxid
    assert_sound(machine)


def assert_sound(machine: Machine) -> None:
    """What follows from nodes and sessions is what it should be."""
    tree = machine.tree
    assert tree.data_size == sum(len(path) + len(node.data or b"") for path, node in tree.nodes.items())
    acls = [node.acl for node in tree.nodes.values() if node.acl is not OPEN_ACL]
    assert tree.acl_size == sum(12 + len(scheme) + len(name) for acl in acls for _, scheme, name in acl)
    assert machine.digest.settle(tree.nodes) == whole(tree.nodes, machine.sessions)
    for path, node in tree.nodes.items():
        assert node.children is None or node.children, path
        assert node.stat() == pack_stat(Znode(*node.fields()), len(node.children or ())), path
        assert node.names() == pack_strings(list(child_names(node))), path
        assert all(below in tree.nodes and parent_of(below) == path for below in node.children or ()), path


def all_pages(machine: Machine) -> tuple[list[bytes], list[bytes], bytes, int]:
    """A capture, with its pages made."""
    captured: Captured = pages(machine)
    return list(captured.node_pages), list(captured.session_pages), captured.state, captured.digest


def reloaded(machine: Machine) -> Machine:
    """The machine that a start makes of a snapshot."""
    return load(*all_pages(machine))


def worlds_that_differ() -> tuple[World, World]:
    """Two that were alike, and what became of the second one in each way."""
    here, there = World((1, 2)), World((1, 2))
    for world in (here, there):
        world.do(*map(Create, ("/stays", "/goes", "/goes/too", "/again", "/set")))
    there.do(Delete("/goes/too"), Delete("/goes"), Create("/new"), Create("/new/x"))
    there.do(Delete("/again"), Create("/again"), SetData("/set"))
    there.do(Create("/stays/brief"), Delete("/stays/brief"))
    there.enter(request_of(Expire(2)), request_of(Open(3)))
    there.enter(Request(Kind.ATTACH, 1, 0, (), encode_terms(6000, hash_of(PASSWORD))), holder="p2")
    return here, there


def sampled(events: Iterable[TreeEvent]) -> list[tuple[int, str]]:
    """Type and path of events."""
    return [(event.kind, event.path) for event in events]


OPEN: tuple[Acl, ...] = (Acl(31, "world", "anyone"),)
