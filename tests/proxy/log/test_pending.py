"""A request as it waits for its outcome."""

from codec.constants import OpCode
from proxy.log.pending import Pending
from schema.entry import EntryWriter, Kind, Request, decode_entry


def test_it_holds_what_an_entry_holds_and_may_carry_more() -> None:
    class Waiting(Pending):
        __slots__ = ("xid",)
        xid: int

    told: list[tuple[int, int, bytes]] = []
    pending = Waiting(
        Kind.CLIENT, 7, OpCode.SYNC, (), b"body", lambda _pending, *outcome: told.append(outcome), fields="/"
    )
    pending.xid = 3
    writer = EntryWriter()
    writer.add(pending.kind, pending.session_id, pending.opcode, pending.identities, pending.body)
    assert decode_entry(writer.finish(0, 0, 0, 0)).requests == [
        Request(Kind.CLIENT, 7, OpCode.SYNC, (), b"body")
    ]
    pending.done(pending, 1, 0, b"reply")
    assert told == [(1, 0, b"reply")]
    assert pending.fields == "/"
