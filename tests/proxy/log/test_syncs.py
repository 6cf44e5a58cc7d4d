"""Syncs alone: which of them a read has proven, and in which order they are answered."""

from codec.constants import OpCode
from codec.jute import pack_string
from proxy.log.append.pending import Pending
from proxy.log.append.syncs import Syncs, needs_no_entry
from schema.entry import Kind


def request(session: int = 1, opcode: int = OpCode.SYNC, kind: Kind = Kind.CLIENT) -> Pending:
    return Pending(kind, session, opcode, (), pack_string("/"))


def test_only_a_clients_sync_needs_no_entry() -> None:
    assert needs_no_entry(request())
    assert not needs_no_entry(request(opcode=OpCode.CREATE))
    assert not needs_no_entry(request(0, kind=Kind.LEVEL))
    assert not needs_no_entry(request(0)), "whoever sends this one wants its entry"


def test_a_sync_that_comes_during_a_read_waits_for_the_next_one() -> None:
    syncs = Syncs()
    assert syncs.ask() is None
    first, second, third = request(), request(), request()
    syncs.add([first, second])
    asked = syncs.ask()
    assert asked == [(first, 0), (second, 0)]
    syncs.add([third])
    assert syncs.ask() is None, "one read at a time"
    assert len(syncs) == 3
    assert syncs.proven(asked) == [(first, 0), (second, 0)]
    assert syncs.proven(asked) == [], "once"
    assert syncs.ask() == [(third, 0)]


def test_a_read_does_not_answer_what_an_entry_has_answered() -> None:
    syncs = Syncs()
    first, second, third = request(), request(), request()
    syncs.add([first])
    asked = syncs.ask()
    assert asked is not None
    syncs.add([second])
    assert syncs.take_all() == [(first, 0), (second, 0)]
    syncs.add([third])
    later = syncs.ask()
    assert later is not None
    assert syncs.proven(asked) == []
    assert syncs.proven(later) == [(third, 0)]
    assert not syncs


def test_a_refused_request_follows_the_syncs_before_it() -> None:
    syncs = Syncs()
    first, refused, second, other = request(), request(opcode=OpCode.CREATE), request(), request(2)
    syncs.add([first])
    asked = syncs.ask()
    assert asked is not None
    syncs.refuse(refused, -1)
    assert syncs.ask() is None
    syncs.add([second])
    syncs.refuse(other, -2)
    assert syncs.proven(asked) == [(first, 0), (refused, -1)]
    assert syncs.take_all() == [(second, 0), (other, -2)]
