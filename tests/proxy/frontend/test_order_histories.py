"""Random histories of one connection against a plain model: one request after the other, nothing in between.

However frames are cut into chunks, outcomes come late, and the client reads now and then: it gets the
same bytes in the same order, and the log gets the same writes. All limits are small here.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.client import framed
from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.framing import Framer
from codec.jute import NULL, pack_buffer
from codec.packets import frame
from proxy.frontend.authentication import Authentication, SaslAnswer
from proxy.frontend.limits import Limits
from proxy.frontend.observer import Observer
from proxy.frontend.order import Order, OrderContext
from proxy.frontend.requests import Write
from proxy.state.notifications import Notifications
from proxy.state.operation import Operations, Reading, ReadOperation, WriteOperation
from proxy.state.ops import READS
from proxy.state.outcome import Refusal
from proxy.state.pause import NO_PAUSE, Pause
from proxy.support.latency import ConnectionLatency, Latency
from schema.entry import Identities, Identity

pytestmark = pytest.mark.long

# What the body of a write may ask for.
FINE, REFUSED = b"fine", b"refused"
SESSION = 7
_SMALL_LIMITS = Limits(large_reply=50, owed=150, ahead=6, heavy_weight=2)


_WRITTEN = (OpCode.CREATE, OpCode.SET_DATA, OpCode.CLOSE_SESSION)
_READ = (OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_ACL, OpCode.MULTI_READ)


def _decode(packet: bytes, position: int, _pause: Pause = NO_PAUSE) -> tuple[bytes, int]:
    body = packet[position:]
    if body not in (FINE, REFUSED, b""):
        raise MalformedPacket("not a write")
    return body, len(packet)


class Machine:
    """Counts the writes that it has applied."""

    def __init__(self) -> None:
        self.zxid = 100

    def read(self, _reading: Reading, _client: Any, packet: bytes, position: int) -> bytes:
        """The number of writes so far, and as many bytes as were asked for."""
        size = int.from_bytes(packet[position:], "big")
        if size == 13:
            raise Refusal(ErrorCode.NO_NODE)
        return self.zxid.to_bytes(4, "big") + bytes(size)

    def execute(self, write: Write) -> tuple[int, bytes]:
        self.zxid += 1
        if write.fields == REFUSED:
            return ErrorCode.BAD_VERSION, b""
        return 0, b"done %d" % self.zxid


def _operations(machine: Machine) -> Operations:
    reads = {int(opcode): ReadOperation(machine.read, alone=READS[opcode].alone) for opcode in _READ}
    none: Any = None
    writes = dict.fromkeys(map(int, _WRITTEN), WriteOperation(_decode, none, none))
    return Operations(reads, writes, keeper=False)


class Asked(NamedTuple):
    """A request."""

    opcode: int
    body: bytes


def _size(number: int) -> bytes:
    return number.to_bytes(2, "big")


_READS = st.builds(
    Asked,
    st.sampled_from([OpCode.GET_DATA] * 6 + [OpCode.EXISTS, OpCode.GET_ACL, OpCode.MULTI_READ]),
    st.sampled_from([_size(0), _size(13)] + [_size(60)] * 3),
)
_WRITES = st.builds(
    Asked,
    st.sampled_from([OpCode.CREATE, OpCode.SET_DATA]),
    st.sampled_from([FINE] * 4 + [REFUSED, b"malformed"]),
)
_SPECIAL = st.one_of(
    st.just(Asked(OpCode.PING, b"")),
    st.builds(Asked, st.just(OpCode.AUTH), st.sampled_from([b"good", b"bad", b"cut"])),
    st.builds(
        Asked,
        st.just(OpCode.SASL),
        st.sampled_from([NULL, *map(pack_buffer, (b"token", b"later", b"later", b"bad", b"bad later"))]),
    ),
    st.sampled_from([Asked(77, b""), Asked(OpCode.CLOSE_SESSION, b"")]),
)
_ONE = st.one_of(_READS, _READS, _WRITES, _WRITES, _WRITES, _SPECIAL).map(lambda asked: [asked])
# A write, and reads of two kinds behind it that are more than is collected at a time.
_BURST = st.integers(1, 3).map(
    lambda count: [
        Asked(OpCode.CREATE, FINE),
        *[Asked(OpCode.GET_DATA, _size(60)), Asked(OpCode.EXISTS, _size(60))] * count,
    ]
)
SCRIPTS = st.lists(st.one_of(_ONE, _ONE, _ONE, _BURST), max_size=15).map(lambda parts: list(chain(*parts)))
# So many bytes come, so many outcomes; the client stops or starts reading; a turn of the loop; the answer to
# a token that takes time.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bytes"), st.sampled_from([1, 7, 30, 60, 200, 2000])),
        st.tuples(st.just("frames"), st.integers(1, 8)),
        st.tuples(st.just("outcomes"), st.integers(1, 2)),
        st.tuples(st.sampled_from(["deaf", "hear", "turn", "answer"]), st.just(0)),
    ),
    max_size=40,
)


class Expected(NamedTuple):
    """What the model says."""

    replies: list[bytes]
    writes: list[tuple[int, int, bytes, Identities]]  # xid, opcode, body, identities


_PROVES = (OpCode.AUTH, OpCode.SASL)


def model(script: Sequence[Asked], *, later: int | None = None, barred: bool = False) -> Expected:
    """One request after the other. `later`: so many answers that take time came; None: all of them.

    `barred`: until it has an identity the client may do nothing but prove one.
    """
    replies: list[bytes] = []
    writes = []
    zxid = 100
    identities: Identities = ()
    for xid, (opcode, body) in enumerate(script):
        if barred and not identities and opcode not in _PROVES:
            replies.append(frame(xid, 0, ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH))
            break
        if opcode in _WRITTEN:
            if body == b"malformed":
                replies.append(frame(xid, zxid, ErrorCode.MARSHALLING_ERROR))
                continue
            zxid += 1
            writes.append((xid, opcode, body, identities))
            if body == REFUSED:
                replies.append(frame(xid, zxid, ErrorCode.BAD_VERSION))
            else:
                replies.append(frame(xid, zxid, 0, b"done %d" % zxid))
            if opcode == OpCode.CLOSE_SESSION:
                break
        elif opcode == OpCode.PING:
            replies.append(frame(-2, zxid, 0))
        elif opcode == OpCode.AUTH:
            if body == b"cut":
                break
            good = body == b"good"
            replies.append(frame(xid, 0, 0 if good else ErrorCode.AUTH_FAILED))
            if not good:
                break
            identities = (*identities, Identity("proven", str(len(identities))))
        elif opcode == OpCode.SASL:
            if body == NULL:
                break
            if b"later" in body and later is not None:
                later -= 1
                if later < 0:
                    break
            if b"bad" in body:
                replies.append(frame(xid, 0, ErrorCode.AUTH_FAILED, NULL))
                break
            replies.append(frame(xid, 0, 0, body))
            identities = (*identities, Identity("proven", str(len(identities))))
        elif opcode == 77:
            replies.append(frame(xid, -1, ErrorCode.UNIMPLEMENTED))
            break
        elif body == _size(13):
            replies.append(frame(xid, zxid, ErrorCode.NO_NODE))
        else:
            replies.append(frame(xid, zxid, 0, zxid.to_bytes(4, "big") + bytes(int.from_bytes(body, "big"))))
    return Expected(replies, writes)


class World:
    """An order, its machine, its log, and a client that sends a script."""

    session_id = SESSION
    address = "10.0.0.7"
    port = 4711
    knows_keeper = False

    def __init__(self, script: Sequence[Asked], *, barred: bool = False) -> None:
        self.script = script
        self.identities: Identities = ()
        self.machine = Machine()
        operations = _operations(self.machine)
        latency = ConnectionLatency(Latency(operations.updates))
        reading: Any = None
        schemes = frozenset(["proven"] if barred else [])
        machine: Any = self.machine
        info: Any = self
        observer = Observer(info, latency, machine, self.perf_counter_ns)
        authentication = Authentication(self.prove, self.negotiate)
        context = OrderContext(machine, reading, operations, schemes, _SMALL_LIMITS)
        self.order = Order(self, info, authentication, self.take_outcome, context, observer)
        self.again = False
        self.is_over = False  # the connection was closed
        self.late: bytes | None = None  # a token whose answer takes time
        self.came = 0  # such answers
        self.latency = latency
        self.framer = Framer()
        whole = [framed(xid, opcode, body) for xid, (opcode, body) in enumerate(script)]
        self.raw = b"".join(whole)
        self.ends = list(accumulate(map(len, whole)))
        self.sent = 0  # bytes of the script
        self.heard = 0  # frames that the order was given
        self.log: list[Write] = []
        self.appended: list[Write] = []
        self.got: list[bytes] = []
        self.now = 0

    def perf_counter_ns(self) -> int:
        self.now += 3_000_000  # so that long reads take their turns
        return self.now

    def take_outcome(self, write: Write, zxid: int, err: int, body: bytes) -> None:
        self.order.answer_write(write, zxid, err, body)

    def _proven(self) -> None:
        self.identities = (*self.identities, Identity("proven", str(len(self.identities))))

    def prove(self, packet: bytes, position: int) -> bool | None:
        body = packet[position:]
        if body == b"good":
            self._proven()
        return None if body == b"cut" else body == b"good"

    def negotiate(self, token: bytes) -> SaslAnswer | None:
        assert self.late is None, "the last token is not answered yet"
        if b"later" in token:
            self.late = token
            return None
        return self._judged(token)

    def _judged(self, token: bytes) -> SaslAnswer:
        if b"bad" in token:
            return SaslAnswer(ErrorCode.AUTH_FAILED, None)
        self._proven()
        return SaslAnswer(0, token)

    def answer(self) -> None:
        """The answer that takes time comes."""
        if self.late is not None:
            token, self.late = self.late, None
            self.came += 1
            self.order.negotiated(self._judged(token))
            self.act()

    def local_session_closed(self) -> None:
        raise AssertionError("no read-only session here")

    def notify(self, notifications: Notifications) -> None:
        raise AssertionError("no client watches here")

    def act(self) -> None:
        """What the connection does."""
        ready = self.order.take_ready()
        assert ready.slow_read is None, "nothing takes long here"
        assert not (self.is_over and ready.again)
        self.log += ready.requests
        self.appended += ready.requests
        self.got += ready.packets
        self.is_over = self.is_over or ready.close is not None
        self.again = ready.again

    def send(self, count: int) -> None:
        frames = self.framer.feed(self.raw[self.sent : self.sent + count])
        self.sent += count
        if not self.order.is_closed:
            self.heard += len(frames)
            self.order.receive(frames, self.perf_counter_ns())
            self.act()

    def up_to(self, count: int) -> int:
        """How many bytes are left up to the end of so many frames."""
        ends = [end for end in self.ends if end > self.sent]
        return ends[min(count, len(ends)) - 1] - self.sent if ends else 0

    def apply(self, count: int) -> None:
        for write in self.log[:count]:
            err, body = self.machine.execute(write)
            write.callback(write, self.machine.zxid, err, body)
        del self.log[:count]
        self.act()

    def advance(self) -> None:
        self.order.advance()
        self.act()

    def step(self, what: str, count: int) -> None:
        replies = self.order.replies
        if what == "bytes":
            self.send(count)
        elif what == "frames":
            self.send(self.up_to(count))
        elif what == "outcomes":
            self.apply(count)
        elif what == "deaf":
            replies.is_paused = True
        elif what == "hear" and replies.is_paused:
            replies.resume()
            self.advance()
        elif what == "turn" and self.again:
            self.advance()
        elif what == "answer":
            self.answer()

    def finish(self) -> None:
        """Everything comes, everything is applied, the client reads."""
        self.order.replies.resume()
        self.advance()
        self.send(len(self.raw))
        for _ in range(10_000):
            if self.log:
                self.apply(1)
            elif self.again:
                self.advance()
            elif self.late is not None:
                self.answer()
            else:
                break
        self.act()

    @property
    def writes(self) -> list[tuple[int, int, bytes, Identities]]:
        """What the log got, up to the end of the session; what comes behind that is refused there."""
        whole = [(write.xid, write.opcode, write.body, write.identities) for write in self.appended]
        ends = [place for place, write in enumerate(whole, 1) if write[1] == OpCode.CLOSE_SESSION]
        return whole[: ends[0]] if ends else whole


def _starts(got: Sequence[bytes], expected: Sequence[bytes]) -> bool:
    return list(got) == list(expected[: len(got)])


@pytest.mark.parametrize("barred", [False, True])
@settings(max_examples=12 * settings().max_examples)
@given(st.lists(_SPECIAL, max_size=4), SCRIPTS, STEPS)
def test_the_client_gets_what_it_would_get_one_by_one(
    barred: bool, first: list[Asked], script: list[Asked], steps: list[tuple[str, int]]
) -> None:
    """Also if it has to authenticate first."""
    if barred:
        script = first + script
    expected = model(script, barred=barred)
    world = World(script, barred=barred)
    for what, count in steps:
        before = len(world.got)
        was_deaf = world.order.replies.is_paused
        world.step(what, count)
        assert _starts(world.got, expected.replies)
        assert world.writes == expected.writes[: len(world.writes)]
        if was_deaf and world.order.replies.is_paused and len(world.got) > before and what != "outcomes":
            # For a client that does not read, only the outcomes of writes, malformed writes and answers that
            # took time are made.
            late = what == "answer"
            assert all(late or struct.unpack_from(">i", one, 16)[0] for one in world.got[before:])
    world.finish()
    assert world.got == expected.replies
    assert world.writes == expected.writes
    assert world.order.queue.count == world.order.queue.size == 0
    assert world.is_over is (
        model([*script, Asked(OpCode.PING, b"")], barred=barred).replies == expected.replies
    )
    # Writes that cannot be read are counted nowhere; those behind the end of the session are.
    answers = [struct.unpack_from(">qi", one, 8) for one in expected.replies]
    counted = sum(1 for zxid, err in answers if zxid > 0 and err != ErrorCode.MARSHALLING_ERROR)
    behind_the_end = len(world.appended) - len(world.writes)
    assert world.latency.count == counted + behind_the_end


@settings(max_examples=8 * settings().max_examples)
@given(SCRIPTS, STEPS)
def test_writes_of_a_connection_that_is_lost_go_on(script: list[Asked], steps: list[tuple[str, int]]) -> None:
    world = World(script)
    for what, count in steps:
        world.step(what, count)
    was_ended = world.order.is_closed
    came = world.came
    world.order.stop()
    world.act()
    got = len(world.got)
    world.answer()
    expected = model(script[: world.heard], later=came)
    if not was_ended:
        assert world.writes == expected.writes
    world.apply(len(world.log))
    assert len(world.got) == got
    assert world.is_over
    assert world.order.queue.count == world.order.queue.size == 0


@settings(max_examples=6 * settings().max_examples)
@given(SCRIPTS, STEPS, st.integers(0, 3))
def test_an_outcome_that_comes_out_of_turn_waits(
    script: list[Asked], steps: list[tuple[str, int]], place: int
) -> None:
    """The log keeps the order of a session's refusals (rule 2.7), but a slow read may be ahead of one."""
    world = World(script)
    early: list[int] = []
    for what, count in steps:
        world.step(what, count)
        if place < len(world.log) and world.log[place].opcode != OpCode.CLOSE_SESSION:
            write = world.log.pop(place)
            early.append(write.xid)
            write.callback(write, world.machine.zxid, ErrorCode.BAD_ARGUMENTS, b"")
            world.act()
    world.finish()
    expected = model(script)
    assert [one[4:8] for one in world.got] == [one[4:8] for one in expected.replies]
    for one in world.got:
        if struct.unpack_from(">i", one, 4)[0] in early:
            assert struct.unpack_from(">i", one, 16) == (ErrorCode.BAD_ARGUMENTS,)
