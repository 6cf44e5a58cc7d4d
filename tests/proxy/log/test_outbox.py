"""The outbox alone; test_log has random histories of whole proxies, where each request counts once or not."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import pack_string
from proxy.log.append.outbox import Outbox, is_metered
from proxy.log.append.pending import CallbackRequest, Pending, ignore
from proxy.log.append.sent import EntryHeader, Form, Sent
from proxy.log.append.syncs import Asked, needs_no_entry
from schema.entry import Identity, Kind, Request, decode_entry
from tests import golden

SCRIPT = Path(__file__).with_name("outbox.txt")
HEADER = EntryHeader(123, 2, 64, 99)
_KINDS = {
    "create": (Kind.CLIENT, OpCode.CREATE),
    "unwanted": (Kind.OPEN, 0),
    "close": (Kind.CLIENT, OpCode.CLOSE_SESSION),
    "sync": (Kind.CLIENT, OpCode.SYNC),
    "attach": (Kind.ATTACH, 0),
    "carry": (Kind.CARRY_OVER, 0),
}


class World:
    """An outbox. In a script, `name/kind@session*size` is a request; all but the name may be left out."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.asked: Asked = []
        self.names: dict[int, str] = {}
        self.sent: dict[int, Sent] = {}

    def request(self, word: str) -> Pending:
        name, _, size = word.partition("*")
        name, _, session = name.partition("@")
        name, _, kind = name.partition("/")
        code, opcode = _KINDS[kind or "create"]
        body = random.Random(1).randbytes(int(size or 1))
        pending = Pending(code, int(session or 1), opcode, (), body)
        if kind == "unwanted":
            pending = CallbackRequest(code, body, ignore, lambda: False, session_id=int(session or 1))
        self.names[id(pending)] = name
        return pending

    def requests(self, words: Iterable[str]) -> list[Pending]:
        return [self.request(word) for word in words]

    def text(self, requests: Iterable[Pending]) -> str:
        return " ".join(self.names[id(pending)] for pending in requests) or "-"

    def errors(self, refused: Iterable[tuple[Pending, int]]) -> list[str]:
        return [f"{self.names[id(pending)]}: {ErrorCode(error).name}" for pending, error in refused]

    def entry(self, sent: Sent | None) -> list[str]:
        refused = self.errors(self.outbox.take_refused())
        if sent is None:
            return [*refused, "nothing is sent"]
        self.sent[sent.number] = sent
        marks = "" if sent.form is Form.DIRECT else f", {sent.form.name.lower()}"
        kept = sent.requests
        if sent.kept:
            kept = [pending for pending, is_kept in zip(kept, sent.kept, strict=True) if is_kept]
            marks += f" of {self.text(sent.requests)}; the others: {ErrorCode(sent.error).name}"
        entry = decode_entry(sent.value)
        assert (entry.clock, entry.rules, entry.checkpoint, entry.digest) == (123, 2, 64, 99)
        made, wanted = (
            [(each.kind, each.session_id, each.opcode) for each in some] for some in (entry.requests, kept)
        )
        assert made == wanted
        return [*refused, f"entry {sent.number}: {self.text(kept)}{marks}"]

    def answer(self, words: Sequence[str]) -> list[str]:
        """Do what a script says."""
        outbox = self.outbox
        match words:
            case ["limits", entry_bytes, value_bytes]:
                self.outbox = Outbox(entry_bytes=int(entry_bytes), value_bytes=int(value_bytes))
            case ["submit", *requests]:
                outbox.submit_all(self.requests(requests))
            case ["first", *requests]:
                outbox.submit_first(self.requests(requests))
            case ["cut"]:
                return self.entry(outbox.cut(HEADER))
            case ["try"]:
                return self.entry(outbox.cut(HEADER, may_try=True))
            case ["full"]:
                outbox.set_full(True)
            case ["hold"]:
                outbox.hold()
            case ["release"]:
                outbox.release()
            case ["refuse"]:
                outbox.refuse_metered()
            case ["appended", number]:
                outbox.appended(self.sent[int(number)])
            case ["no", "space", number]:
                outbox.set_full(True)
                outbox.no_space(self.sent[int(number)])
                return self.entry(self.sent[int(number)])
            case ["too", "large", number]:
                is_filled = outbox.too_large(self.sent[int(number)])
                return self.entry(self.sent[int(number)]) if is_filled else ["the incarnation has to end"]
            case ["settle", number]:
                sent = outbox.settle(int(number))
                return self.errors(sent.after) if sent else ["no such number"]
            case ["skipped", number]:
                return self.errors(outbox.skipped(int(number)))
            case ["abandon"]:
                return self.errors(outbox.abandon())
            case ["end", number]:
                return [f"again: {self.text(outbox.end_incarnation(int(number)))}"]
            case ["syncs"]:
                return ["a read is needed"] if outbox.set_syncs_apart() else ["no read is needed"]
            case ["ask"]:
                asked = outbox.syncs.ask()
                self.asked = self.asked if asked is None else asked
                return ["no read begins" if asked is None else f"a read for {self.asked_text(asked)}"]
            case ["proven"]:
                return [f"answered: {self.asked_text(outbox.syncs.proven(self.asked))}"]
            case ["take", "syncs"]:
                return [f"answered: {self.asked_text(outbox.syncs.take_all())}"]
            case ["append", "syncs"]:
                outbox.append_syncs()
            case ["state"]:
                empty = "" if outbox.bytes else ", no bytes"
                return [f"{outbox.outstanding} without an outcome, {outbox.unanswered} unanswered{empty}"]
            case ["stages"]:
                return [", ".join(f"{number}: {sent.stage.name}" for number, sent in self.sent.items())]
            case _:
                raise AssertionError(words)
        return []

    def asked_text(self, asked: Asked) -> str:
        return (
            " ".join(
                self.names[id(pending)] + (f" ({ErrorCode(error).name})" if error else "")
                for pending, error in asked
            )
            or "-"
        )


@golden.one_by_one(SCRIPT)
def test_script(case: golden.Case) -> None:
    golden.check(SCRIPT, case, World().answer)


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_full_etcd_takes_has_nothing_that_a_client_may_make_long(is_known: bool) -> None:
    """A client drove an etcd far beyond its quota by syncs, whose paths had a megabyte."""
    long, identities = random.Random(1).randbytes(100_000), (Identity("digest", "a" * 1000),)
    outbox = Outbox()
    outbox.set_full(is_known)
    for opcode in (OpCode.SYNC, OpCode.CLOSE_SESSION):
        outbox.submit(Pending(Kind.CLIENT, 1, opcode, identities, long))
    sent = outbox.cut(HEADER)
    assert sent is not None
    if not is_known:
        outbox.no_space(sent)
    sync, close = decode_entry(sent.value).requests
    assert sync == Request(Kind.CLIENT, 1, OpCode.SYNC, (), pack_string("/"))
    assert close == Request(Kind.CLIENT, 1, OpCode.CLOSE_SESSION, identities, b"")
    assert [each.body for each in sent.requests] == [long, long]


def test_which_requests_take_space() -> None:
    def request(kind: int = Kind.CLIENT, opcode: int = OpCode.CREATE) -> Pending:
        return Pending(kind, 1, opcode, (), b"")

    assert is_metered(request())
    assert is_metered(request(Kind.OPEN))
    for opcode in (OpCode.CLOSE_SESSION, OpCode.SYNC):
        assert not is_metered(request(opcode=opcode))
    for kind in set(Kind) - {Kind.CLIENT, Kind.OPEN}:
        assert not is_metered(request(kind))
        assert not needs_no_entry(request(kind, OpCode.SYNC))
