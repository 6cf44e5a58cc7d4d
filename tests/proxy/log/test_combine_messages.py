"""What proxies send each other: it comes as it was sent, or not at all."""

import contextlib
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.log.combine.messages import (
    GREETING,
    MOST_BYTES,
    NONCE,
    BadMessage,
    Hello,
    Mode,
    SignedMessages,
    decode_answer,
    decode_entry,
    decode_hello,
    encode_entry,
)
from schema.keys import LAST_NUMBER


def _pair(secret: bytes = b"s", other: bytes = b"s") -> tuple[SignedMessages, SignedMessages]:
    one, two = SignedMessages(secret, b"1" * NONCE), SignedMessages(other, b"2" * NONCE)
    assert one.verify(two.greeting()) == two.verify(one.greeting()) == []
    return one, two


@given(st.lists(st.binary(max_size=40), max_size=5), st.lists(st.integers(0, 300)))
def test_messages_come_in_order_however_they_are_split(bodies: list[bytes], cuts: list[int]) -> None:
    one, two = SignedMessages(b"s", b"1" * NONCE), SignedMessages(b"s", b"2" * NONCE)
    one.verify(two.greeting())
    sent = one.greeting() + b"".join(map(one.sign, bodies))
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    come = [body for begin, end in itertools.pairwise(places) for body in two.verify(sent[begin:end])]
    assert come == bodies


@given(st.integers(0, 1000), st.integers(1, 255))
def test_a_changed_byte_is_noticed(place: int, change: int) -> None:
    one, two = _pair()
    sent = bytearray(one.sign(b"first") + one.sign(b"second"))
    sent[place % len(sent)] ^= change
    with pytest.raises(BadMessage):
        # A size that has become larger is noticed with what follows.
        assert two.verify(bytes(sent)) + two.verify(bytes(MOST_BYTES)) == [b"first", b"second"], "not noticed"


def test_a_message_is_not_taken_twice_in_another_order_or_back() -> None:
    one, two = _pair()
    first, second = one.sign(b"first"), one.sign(b"second")
    for come in (second, first + first):
        with pytest.raises(BadMessage, match="tag"):
            _pair()[1].verify(come)
    with pytest.raises(BadMessage, match="tag"):
        one.verify(first)
    assert two.verify(first + second) == [b"first", b"second"]


def test_who_does_not_know_the_secret_sends_nothing() -> None:
    one, two = _pair(other=b"t")
    with pytest.raises(BadMessage, match="does not know the secret"):
        two.verify(one.sign(b""))
    with pytest.raises(BadMessage, match="our own greeting"):
        SignedMessages(b"s", b"1" * NONCE).verify(one.greeting())
    for come in (b"GET / HTTP/1.1\r\n", bytes(60), GREETING[:-1] + b"2"):
        with pytest.raises(BadMessage, match="no greeting"):
            SignedMessages(b"s", b"1" * NONCE).verify(come)


def test_releases_understand_each_other() -> None:
    """A change of these bytes would leave proxies of two releases without combined appends."""
    one, two = _pair()
    assert one.greeting() == b"zketcd combine 1\n1111111111111111"
    assert (
        one.sign(Hello(5, "a").encode()).hex() == "00000009565d95ffd3d5d1c281157478d2bcf94d000000000000000561"
    )
    assert Mode(together=False).encode().hex() == "00000000000000000001"
    assert two.sign(encode_entry(7, b"")).hex() == "000000083eca1c6f5861892a29b1c41508a639810000000000000007"


def test_a_large_message_is_refused_before_it_is_here() -> None:
    one, two = _pair()
    with pytest.raises(BadMessage, match="a message of 65544 bytes"):  # nothing is known before the hello
        _pair()[1].verify(one.sign(encode_entry(1, bytes(MOST_BYTES)))[:30])
    one, two = _pair()
    two.verify(one.sign(b""))
    assert two.verify(one.sign(encode_entry(1, bytes(MOST_BYTES)))) == [encode_entry(1, bytes(MOST_BYTES))]
    with pytest.raises(BadMessage, match="a message of"):
        two.verify(one.sign(encode_entry(2, bytes(MOST_BYTES + 1)))[:30])


@given(st.integers(0, (1 << 63) - 1), st.text(), st.integers(1, LAST_NUMBER), st.binary())
def test_bodies_come_back(revision: int, name: str, number: int, value: bytes) -> None:
    hello = Hello(revision, name.encode(errors="replace").decode())
    assert decode_hello(hello.encode()) == hello
    assert decode_entry(encode_entry(number, value)) == (number, value)


@given(st.builds(Mode, st.booleans(), st.booleans()))
def test_a_mode_comes_back_and_is_no_entry(mode: Mode) -> None:
    assert decode_answer(mode.encode()) == mode
    assert decode_answer(mode.encode() + b"later") == mode, "a later release may say more"
    with pytest.raises(BadMessage):
        decode_entry(mode.encode())
    assert decode_answer(encode_entry(LAST_NUMBER, b"")) == LAST_NUMBER


@pytest.mark.parametrize("number", [0, LAST_NUMBER + 1, (1 << 64) - 1])
def test_a_number_that_no_key_has_is_refused(number: int) -> None:
    """A key with more digits would be none of the schema's, and proxies would not start."""
    with pytest.raises(BadMessage, match=f"no entry has the number {number}"):
        decode_entry(encode_entry(number, b"value"))


@given(st.binary(max_size=20))
@example(b"12345678\xff")
def test_bodies_of_any_bytes_are_read_or_refused(body: bytes) -> None:
    for decode in (decode_hello, decode_entry, decode_answer):
        with contextlib.suppress(BadMessage):
            decode(body)
