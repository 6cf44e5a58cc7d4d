"""A request as it waits for its outcome."""

from codec.constants import OpCode
from proxy.log.pending import CallbackRequest, Pending
from schema.entry import EntryWriter, Kind, Request, decode_entry


def test_it_holds_what_an_entry_holds() -> None:
    pending = Pending(Kind.CLIENT, 7, OpCode.SYNC, (), b"body", fields="/")
    writer = EntryWriter()
    writer.add(pending.kind, pending.session_id, pending.opcode, pending.identities, pending.body)
    assert decode_entry(writer.finish(0, 0, 0, 0)).requests == [
        Request(Kind.CLIENT, 7, OpCode.SYNC, (), b"body")
    ]
    pending.applied(1, 0, b"reply")
    assert pending.fields == "/"


def test_a_function_may_take_the_outcome() -> None:
    outcomes: list[tuple[Pending, int, int, bytes]] = []
    request = CallbackRequest(
        Kind.OPEN, 7, 0, (), b"", lambda pending, zxid, err, body: outcomes.append((pending, zxid, err, body))
    )
    request.applied(1, 0, b"reply")
    assert outcomes == [(request, 1, 0, b"reply")]
