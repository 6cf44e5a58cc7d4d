"""Entries: what is written comes back, the size is bounded beforehand, anything else is refused."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema import entry
from schema.compression import ENVELOPE_SIZE, wrap
from schema.entry import (
    FORMAT,
    Entry,
    EntryWriter,
    Identity,
    Kind,
    Request,
    Rules,
    decode_carry_over,
    decode_close,
    decode_entry,
    decode_epoch,
    decode_forget,
    decode_level,
    decode_node_due,
    decode_terms,
    encode_carry_over,
    encode_close,
    encode_epoch,
    encode_forget,
    encode_level,
    encode_node_due,
    encode_terms,
    encode_void,
    kinds_in,
)
from schema.errors import BadValue
from tests.schema.damage import assert_all_damage_is_refused
from tests.schema.strategies import IDENTITIES, INTS, LONGS, TEXTS, UNSIGNED
from tests.table import one_by_one

_REQUESTS = st.builds(
    Request, st.sampled_from([int(kind) for kind in Kind]), LONGS, INTS, IDENTITIES, st.binary()
)
_RULES = st.integers(min_value=0, max_value=sum(Rules))
_ENTRIES = st.builds(Entry, LONGS, _RULES, UNSIGNED, UNSIGNED, st.lists(_REQUESTS, max_size=8))
_IP = (Identity("ip", "10.0.0.1"),)
_USER = (*_IP, Identity("digest", "user:hash"))


def _encode(value: Entry) -> bytes:
    writer = EntryWriter()
    for request in value.requests:
        writer.add(*request)
    encoded = writer.finish(value.clock, value.rules, value.checkpoint, value.digest)
    assert len(encoded) <= writer.size
    return encoded


@given(_ENTRIES)
def test_an_entry_comes_back(value: Entry) -> None:
    found = decode_entry(_encode(value))
    assert found == value
    assert list(kinds_in(_encode(value))) == [request.kind for request in value.requests]
    assert all(type(request) is Request for request in found.requests)
    assert all(type(one) is Identity for request in found.requests for one in request.identities)


@given(_REQUESTS, st.integers(min_value=100, max_value=3000))
def test_a_long_entry_comes_back(request: Request, count: int) -> None:
    value = Entry(1, 0, 0, 0, [request] * count)
    encoded = _encode(value)
    assert decode_entry(encoded) == value
    assert len(encoded) < 4096 + ENVELOPE_SIZE + len(request.body)  # compressed from 4 KiB on


def test_without_compression_the_size_is_exact_and_noise_stays_within_it() -> None:
    writer = EntryWriter()
    assert writer.size == len(EntryWriter().finish(0, 0, 0, 0))
    for number, identities in enumerate([_IP, _USER, _IP, (), _USER, ()]):
        writer.add(Kind.CLIENT, number, 1, identities, bytes(number))
    assert writer.size == len(writer.finish(0, 0, 0, 0))
    noise = random.Random(1)
    requests = [Request(Kind.CLIENT, number, 1, _IP, noise.randbytes(1000)) for number in range(50)]
    value = Entry(0, 0, 0, 0, requests)
    assert decode_entry(_encode(value)) == value


def test_an_entry_byte_for_byte() -> None:
    writer = EntryWriter()
    writer.add(Kind.CLIENT, 0x1234, 1, _IP, b"body")
    writer.add(Kind.CLOSE, -1, 0, (), b"why")
    body = (
        Struct(">qIQQII").pack(99, 3, 32, (1 << 64) - 1, 2, 26)
        + Struct(">qq").pack(0x1234, -1)
        + Struct(">ii").pack(1, 0)
        + Struct(">II").pack(0, 1)
        + Struct(">II").pack(4, 3)
        + bytes((0, 3))
        + Struct(">II2sI8s").pack(18, 2, b"ip", 8, b"10.0.0.1")
        + Struct(">I").pack(0)
        + b"bodywhy"
    )
    covered = Struct(">BII").pack(0, 0, len(body)) + body
    assert writer.finish(99, 3, 32, (1 << 64) - 1) == b"E" + crc32(covered).to_bytes(4, "big") + covered


def test_a_void_has_no_requests() -> None:
    assert decode_entry(encode_void(5)) == Entry(5, 0, 0, 0, [])


def test_equal_identity_lists_are_one_tuple_within_and_across_entries() -> None:
    def requests() -> list[Request]:
        # New tuples each time, as several connections have them.
        identities = [tuple([Identity(*one) for one in value]) for value in (_USER, _IP, _USER)]
        return [Request(Kind.CLIENT, 1, 1, value, b"") for value in identities]

    one, other = (decode_entry(_encode(Entry(0, 0, 0, 0, requests()))) for _ in range(2))
    assert one.requests[0].identities is one.requests[2].identities
    assert one.requests[0].identities is other.requests[0].identities
    assert one.requests[1].identities is other.requests[1].identities


def test_what_is_remembered_of_identities_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: dict[tuple[Identity, ...], bytes] = {}
    unpacked: dict[bytes, tuple[Identity, ...]] = {}
    for name, changed in (("_MOST_CACHED", 3), ("_packed_lists", packed), ("_unpacked_lists", unpacked)):
        monkeypatch.setattr(entry, name, changed)
    for number in range(10):
        for name in ("short", "long" * 1000):
            identities = (Identity("digest", f"{name}{number}"),)
            value = Entry(0, 0, 0, 0, [Request(Kind.CLIENT, 1, 1, identities, b"")])
            assert decode_entry(_encode(value)) == value
        assert len(packed) <= 3
        assert len(unpacked) <= 3
    assert max(map(len, unpacked)) < 100


@pytest.mark.parametrize("count", [0, 1, 3, 60])
def test_all_damage_is_refused(count: int) -> None:
    requests = [Request(Kind.CLIENT, number, 1, _USER, b"/path" * 20) for number in range(count)]
    for read in (decode_entry, kinds_in):
        assert_all_damage_is_refused(read, _encode(Entry(1, 1, 32, 7, requests)))


def _rewrapped(value: bytes, place: int, new: bytes) -> bytes:
    """An uncompressed entry whose body has `new` at `place`, with a checksum that is right."""
    body = value[ENVELOPE_SIZE:]
    return wrap(FORMAT, body[:place] + new + body[place + len(new) :])


_COLUMNS = Struct(">qIQQII").size
_ONE = _encode(Entry(1, 1, 0, 0, [Request(Kind.CLIENT, 5, 1, _IP, b"body")]))


@one_by_one(
    ("place", "new", "message"),
    [
        (8, b"\0\0\0\x20", "rules 0x20; this release knows 0x1f"),
        (8, b"\x80\0\0\0", "rules 0x80000000"),
        (28, b"\0\0\0\x09", "an entry of 9 requests has only"),
        (28, b"\xff\xff\xff\xff", "an entry of 4294967295 requests has only"),
        (28, b"\0\0\0\0", "."),
        (32, b"\0\0\0\xff", "has only"),
        (32, b"\0\0\0\0", "whose identities are not in it"),
        (_COLUMNS + 12, b"\0\0\0\x01", "whose identities are not in it"),
        (_COLUMNS + 12, b"\xff\xff\xff\xff", "whose identities are not in it"),
        (_COLUMNS + 16, b"\0\0\0\x05", "requests end at byte"),
        (_COLUMNS + 16, b"\0\0\0\x03", "requests end at byte"),
        (_COLUMNS + 16, b"\xff\xff\xff\xff", "requests end at byte"),
        (_COLUMNS + 20, b"\x0b", "a request of kind 11, which this release does not know"),
        (_COLUMNS + 20, b"\xff", "a request of kind 255"),
        (_COLUMNS + 21, b"\0\0\0\xff", "identities of 22 bytes is cut short"),
        (_COLUMNS + 25, b"\0\0\0\xff", "identities of 18 bytes is cut short"),
        (_COLUMNS + 29, b"\xff", "not UTF-8"),
    ],
)
def test_a_body_whose_numbers_do_not_fit_is_refused(place: int, new: bytes, message: str) -> None:
    assert decode_entry(_rewrapped(_ONE, 0, b"")) == decode_entry(_ONE)
    for read in (decode_entry, kinds_in):
        with pytest.raises(BadValue, match=message):
            read(_rewrapped(_ONE, place, new))


@given(st.binary(max_size=120))
def test_any_body_behind_a_right_checksum_is_an_entry_or_refused(body: bytes) -> None:
    head = Struct(">qIQQII").pack(0, 0, 0, 0, len(body) // 30, len(body) % 13)
    cut = _ONE[ENVELOPE_SIZE:][: len(body) % (len(_ONE) - ENVELOPE_SIZE)]
    for candidate in (body, head + body, cut):
        try:
            found = decode_entry(wrap(FORMAT, candidate))
        except BadValue:
            with pytest.raises(BadValue):
                kinds_in(wrap(FORMAT, candidate))
            continue
        assert len(kinds_in(wrap(FORMAT, candidate))) == len(found.requests)
        assert candidate is not cut
        assert found.requests or len(candidate) <= _COLUMNS + len(body)


def test_the_contract_names_every_kind_and_rule() -> None:
    contract = (Path(entry.__file__).parent / "README.md").read_text()
    kinds = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", contract, re.MULTILINE)
    assert kinds == [(str(int(kind)), kind.name) for kind in Kind]
    table = contract.split("| rule | the sending proxy |")[1].split("\n\n")[0]
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == list(Rules)


_HASH = st.binary(min_size=16, max_size=16)
_INCARNATIONS = TEXTS
_BODIES: list[tuple[Callable[..., bytes], Callable[[bytes], Any], list[st.SearchStrategy[Any]]]] = [
    (encode_terms, decode_terms, [INTS, _HASH]),
    (encode_close, decode_close, [TEXTS, _INCARNATIONS]),
    (encode_carry_over, decode_carry_over, [_INCARNATIONS]),
    (encode_node_due, decode_node_due, [TEXTS, INTS, LONGS, LONGS, LONGS]),
    (encode_epoch, decode_epoch, [UNSIGNED, LONGS]),
    (encode_level, decode_level, [st.integers(0, (1 << 32) - 1)]),
    (encode_forget, decode_forget, [_INCARNATIONS]),
]


def test_each_kind_but_the_clients_has_a_body_of_ours() -> None:
    named = {encode.__name__.removeprefix("encode_").upper() for encode, _, _ in _BODIES}
    of_others = {"CLIENT", "FOLLOWED", "BUDGET"}  # they have modules of their own
    assert named - {"TERMS"} == set(Kind.__members__) - of_others - {"OPEN", "ATTACH"}


@pytest.mark.parametrize(
    ("encode", "decode", "arguments"), _BODIES, ids=lambda value: getattr(value, "__name__", "")
)
@given(data=st.data())
def test_a_body_comes_back_and_nothing_shorter_or_longer(
    data: st.DataObject,
    encode: Callable[..., bytes],
    decode: Callable[[bytes], Any],
    arguments: list[st.SearchStrategy[Any]],
) -> None:
    fields = tuple(data.draw(argument) for argument in arguments)
    body = encode(*fields)
    found = decode(body)
    assert found == fields
    assert dict(zip(found._fields, fields, strict=True)) == found._asdict()
    for size in range(len(body)):
        with pytest.raises(BadValue):
            decode(body[:size])
    with pytest.raises(BadValue, match="more than it should"):
        decode(body + b"\0")


def test_a_password_hash_has_16_bytes() -> None:
    with pytest.raises(ValueError, match="3 bytes instead of 16"):
        encode_terms(1, b"abc")
