"""The outbox alone; test_log has random histories of whole proxies, where each request counts once or not."""

import random

from codec.constants import ErrorCode, OpCode
from proxy.log.append.outbox import (
    Header,
    Outbox,
    Sent,
    is_metered,
)
from proxy.log.append.pending import CallbackRequest, Pending
from schema.entry import Kind, decode_entry
from schema.keys import Keyspace

KEYS = Keyspace("/t")
HEADER = Header(1000, 3, 0, 0)
NOBODY = ()


def request(
    session: int = 1, body: bytes = b"x", *, kind: Kind = Kind.CLIENT, opcode: int = OpCode.CREATE
) -> Pending:
    return Pending(kind, session, opcode, NOBODY, body)


def cut(outbox: Outbox, *, header: Header = HEADER, may_probe: bool = False) -> Sent:
    """The next entry: there is one."""
    sent = outbox.cut(header, may_probe=may_probe)
    assert sent is not None
    return sent


def bodies(value: bytes) -> list[bytes]:
    return [each.body for each in decode_entry(value).requests]


def test_the_header_is_in_the_entry() -> None:
    outbox = Outbox()
    outbox.queue.append(request())
    sent = cut(outbox, header=Header(123, 2, 64, 99))
    entry = decode_entry(sent.value)
    assert (entry.clock, entry.rules, entry.checkpoint, entry.digest) == (123, 2, 64, 99)


def test_an_entry_ends_before_it_gets_too_large_and_a_larger_request_goes_alone() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox(entry_bytes=1000, value_bytes=5000)
    for size in (400, 400, 400, 3000, 10):
        outbox.queue.append(request(body=noise(size)))
    sizes = []
    while (sent := outbox.cut(HEADER)) is not None:
        sizes.append([len(body) for body in bodies(sent.value)])
    assert sizes == [[400, 400], [400], [3000], [10]]


def test_a_request_that_etcd_would_never_take_is_refused_in_its_turn() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox(entry_bytes=1000, value_bytes=5000)
    before, large, behind = request(), request(body=noise(6000)), request()
    outbox.queue.append(large)
    assert outbox.cut(HEADER) is None
    assert outbox.take_refused() == [(large, ErrorCode.BAD_ARGUMENTS)]
    assert outbox.take_refused() == []
    outbox.queue.extend((before, large, behind))
    first, second = cut(outbox), cut(outbox)
    assert first.requests == [before]
    assert second.requests == [behind]
    assert outbox.take_refused() == []
    assert first.after == [(large, ErrorCode.BAD_ARGUMENTS)]
    assert outbox.outstanding == 3
    assert outbox.settle(1) is first


def test_a_request_that_no_client_waits_for_is_refused_in_its_turn() -> None:
    outbox = Outbox()
    given_up = CallbackRequest(
        Kind.CLIENT, 1, OpCode.CREATE, NOBODY, b"x", lambda *_: None, is_wanted=lambda: False
    )
    before, behind = request(), request()
    outbox.queue.extend((before, given_up, behind))
    first, second = cut(outbox), cut(outbox)
    assert (first.requests, second.requests) == ([before], [behind])
    assert first.after == [(given_up, ErrorCode.SYSTEM_ERROR)]


def test_one_write_alone_probes_whether_there_is_space_again() -> None:
    outbox = Outbox()
    outbox.full = True
    close, probe, other = request(2, opcode=OpCode.CLOSE_SESSION), request(1), request(3)
    outbox.queue.extend((close, probe, other))
    first, second = cut(outbox, may_probe=True), cut(outbox, may_probe=True)
    assert (first.requests, first.nested, first.is_probe) == ([close], True, False)
    assert (second.requests, second.nested, second.is_probe) == ([probe], False, True)


def test_a_lower_limit_of_etcd_is_learned_and_nothing_small_is_refused() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox(entry_bytes=200_000)
    pendings = [request(body=noise(40_000)) for _ in range(6)]
    outbox.queue.extend(pendings)
    sent, later = cut(outbox), cut(outbox)
    assert (len(sent.requests), len(later.requests)) == (4, 2)
    # Later numbers may be in the log, so the others cannot follow under other numbers of this incarnation.
    assert not outbox.too_large(sent)
    again = outbox.end_incarnation(0)
    assert again == pendings
    outbox.queue.extend(again)
    for number, pending in enumerate(pendings, 1):
        sent = cut(outbox)
        assert (sent.number, sent.requests) == (number, [pending])
        outbox.settle(number)
    outbox.queue.append(request())
    outbox.queue.append(request())
    small = cut(outbox)
    assert len(small.requests) == 2, "small requests still go together"
    assert not outbox.too_large(small)
    for _ in outbox.end_incarnation(6):
        outbox.queue.append(request())
        alone = cut(outbox)
        assert len(alone.requests) == 1


def test_a_request_that_this_etcd_refuses_by_itself_leaves_a_void() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox()
    outbox.queue.append(request(body=noise(100_000)))
    sent = cut(outbox)
    assert outbox.too_large(sent)
    assert bodies(sent.value) == []
    assert outbox.bytes == len(sent.value)
    assert sent.error == ErrorCode.BAD_ARGUMENTS
    # The next one as large is refused without an entry, the next one that is smaller is not.
    outbox.queue.append(request(body=noise(100_000)))
    assert outbox.cut(HEADER) is None
    assert [error for _, error in sent.after] == [ErrorCode.BAD_ARGUMENTS]
    outbox.queue.append(request(body=noise(50_000)))
    assert outbox.cut(HEADER) is not None


def test_an_entry_refused_as_too_large_by_a_full_etcd_which_lets_no_proxy_register() -> None:
    outbox = Outbox()
    for opcode in (OpCode.CREATE, OpCode.CLOSE_SESSION):
        outbox.queue.append(request(opcode=opcode))
    sent = cut(outbox)
    outbox.full = True
    assert outbox.too_large(sent)
    assert (sent.kept, sent.error, sent.nested) == ([False, True], ErrorCode.SYSTEM_ERROR, True)
    value = sent.value
    outbox.no_space(sent)
    assert sent.value is value, "it is replaced once"


def test_which_requests_take_space() -> None:
    assert is_metered(request())
    assert is_metered(request(kind=Kind.OPEN))
    for opcode in (OpCode.CLOSE_SESSION, OpCode.SYNC):
        assert not is_metered(request(opcode=opcode))
    for kind in set(Kind) - {Kind.CLIENT, Kind.OPEN}:
        assert not is_metered(request(kind=kind))


def test_what_a_load_has_skipped_loses_its_answers() -> None:
    outbox = Outbox()
    pendings = [request(body=b"%d" % number) for number in range(3)]
    for pending in pendings:
        outbox.queue.append(pending)
        outbox.cut(HEADER)
    assert outbox.skipped(2) == [(pending, ErrorCode.CONNECTION_LOSS) for pending in pendings[:2]]
    assert outbox.end_incarnation(2) == pendings[2:]
    assert (outbox.bytes, outbox.unanswered, outbox.outstanding) == (0, 0, 0)
