"""The state machine: requests of two sessions and of the proxies themselves, and reads between them.

Nothing may raise but what an entry's damaged body is documented to raise (BadValue, UnknownLevel). A request
that is refused leaves the state as it was; the running digest is the one computed from scratch; and a machine
loaded from a snapshot half-way gives the same answers and comes to the same state.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from codec.errors import MalformedPacket
from proof.fuzzing.target import Target
from proof.fuzzing.targets.clients import opcode_at
from proof.fuzzing.targets.pieces import Pieces, fields_of, same
from proxy.state import machine as machine_module
from proxy.state.capture import load, new_machine, pages
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.state.notifications import Notifications
from proxy.state.operation import Reading
from proxy.state.ops import EXTENDED
from proxy.state.outcome import Outcome, Refusal
from proxy.state.watches import WatchTable
from schema.entry import Identity, Kind, Request, Rules, encode_terms
from schema.errors import BadValue

SESSIONS = (1, 2)
_PASSWORD_HASH = bytes(16)
_INCARNATION = "fuzz"
_CLUSTER = 7
_CLOCK = 1_600_000_000_000
_RULES = int(Rules.EXTENDED_TYPES | Rules.ENFORCE_QUOTA | Rules.KEEPER)
_MOST_STEPS = 40
_IDENTITIES = ((Identity("ip", "127.0.0.1"),), (Identity("ip", "127.0.0.1"), Identity("digest", "me:hash")))

# How a step begins, by its first byte: the lowest bits say what it is, the others which session sends it.
CLIENT, PROXYS, ENTRY_ENDS = 0, 1, 2
_MEANINGS = 3


class _Client:
    """A client that reads and watches."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.identities = _IDENTITIES[0]
        self.knows_keeper = True

    def notify(self, notifications: Notifications) -> None:
        """An event."""

    def local_session_closed(self) -> None:
        """The session is closed."""


class _Errors(logging.Handler):
    """What the machine reports as an error of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._last: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self._last = record.exc_info[1] if record.exc_info else None

    def take(self) -> BaseException | None:
        """Return the last error, and forget it."""
        error, self._last = self._last, None
        return error


@contextmanager
def _reported() -> Iterator[_Errors]:
    """Take what the machine logs, and keep it out of the real log."""
    errors, logger = _Errors(), machine_module.log
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(errors)
    try:
        yield errors
    finally:
        logger.removeHandler(errors)
        logger.propagate = propagates


class _Run:
    """One machine, its watches, and a second one once there is a snapshot."""

    def __init__(self, errors: _Errors) -> None:
        self._errors = errors
        self.machine = _prepared()
        self._twin: Machine | None = None
        self._state = state_of(self.machine)
        self._watches = WatchTable()
        self._clients = [_Client(session) for session in SESSIONS]
        self._number = self.machine.applied[_INCARNATION]
        self._begin()

    def _both(self) -> list[Machine]:
        return [self.machine] if self._twin is None else [self.machine, self._twin]

    def _begin(self) -> None:
        self._number += 1
        for machine in self._both():
            machine.begin(_INCARNATION, self._number, _CLOCK + self._number, _RULES)

    def next_entry(self) -> None:
        """The entry ends; from the first one on a machine of its snapshot goes along."""
        for machine in self._both():
            machine.end()
        self._check_digest()
        if self._twin is None:
            captured = pages(self.machine)
            self._twin = load(captured.node_pages, captured.session_pages, captured.state, captured.digest)
        self._begin()

    def _check_digest(self) -> None:
        machine = self.machine
        same("the digest", machine.digest.settle(machine.tree.nodes), machine.compute_digest())

    def write(self, request: Request) -> None:
        """Execute a request on the machines."""
        machine = self.machine
        outcome = self._execute(machine, request)
        state = state_of(machine)
        if outcome.err:
            same("the state after a refused request", state, self._state)
        self._state = state
        self._watches.fire(machine.transaction.events, machine.zxid)
        if self._twin is not None:
            same("the answer of a machine from a snapshot", self._execute(self._twin, request), outcome)

    def _execute(self, machine: Machine, request: Request) -> Outcome:
        outcome = machine.execute(request, wants_reply=True)
        error = self._errors.take()
        if error is not None and (request.kind == Kind.CLIENT or not isinstance(error, BadValue)):
            raise error
        return outcome

    def read(self, opcode: int, client: int, body: bytes) -> None:
        """Answer a read."""
        reading = Reading(self.machine.tree, self._watches, {})
        with suppress(Refusal, MalformedPacket):
            EXTENDED.reads[opcode].answer(reading, self._clients[client], b"8 before" + body, 8)

    def finish(self) -> None:
        """Compare the machines, and with one that is loaded now."""
        self._check_digest()
        if self._twin is not None:
            same("the state of a machine from a snapshot", state_of(self._twin), state_of(self.machine))
        captured = pages(self.machine)
        again = load(captured.node_pages, captured.session_pages, captured.state, captured.digest)
        same("a snapshot of what was loaded", state_of(again), state_of(self.machine))


def _prepared() -> Machine:
    machine = new_machine(_CLUSTER)
    machine.transaction.watched = True
    machine.begin(_INCARNATION, 1, _CLOCK, _RULES)
    for session in SESSIONS:
        machine.execute(Request(Kind.OPEN, session, 0, (), encode_terms(10_000, _PASSWORD_HASH)))
    machine.end()
    return machine


def state_of(machine: Machine) -> tuple[dict[str, object], list[object]]:
    """Nodes with their children, and sessions. Refused requests count in the zxid and in entries."""
    nodes: dict[str, object] = {
        path: (fields_of(node), frozenset(node.children or ())) for path, node in machine.tree.nodes.items()
    }
    sessions = [machine.sessions[number] for number in sorted(machine.sessions)]
    return nodes, [(one.id, one.timeout_ms, one.password_hash, one.incarnation) for one in sessions]


def apply_steps(data: bytes) -> None:
    """Steps, each a byte that says what and whose, a byte that says which, and the body as a piece."""
    pieces = Pieces(data)
    with _reported() as errors:
        run = _Run(errors)
        for _ in range(_MOST_STEPS):
            if not pieces.rest:
                break
            first = pieces.byte()
            meaning, whose = first % _MEANINGS, first // _MEANINGS
            if meaning == ENTRY_ENDS:
                run.next_entry()
                continue
            which, body = pieces.byte(), pieces.piece()
            session = whose % 3  # the last has never been opened
            if meaning == PROXYS:
                try:
                    run.write(Request(1 + which % (len(Kind) - 1), 1 + session, 0, (), body))
                except UnknownLevel:
                    break
                continue
            opcode = opcode_at(which)
            if opcode in EXTENDED.writes:
                run.write(Request(Kind.CLIENT, 1 + session, opcode, _IDENTITIES[whose % 2], body))
            elif opcode in EXTENDED.reads:
                run.read(opcode, session % 2, body)
        run.finish()


MACHINE = (
    Target(
        "machine",
        "Steps of two sessions and of the proxies.",
        apply_steps,
        (),
        bytes_each=20_000,
        fixed_bytes=8 << 20,
    ),
)
