"""Changes of inputs: bits, numbers, lengths, pieces cut out, doubled, or taken from another input."""

import random
from collections.abc import Callable, Sequence

#: Larger inputs teach nothing that smaller ones do not.
MOST_BYTES = 4096

_NUMBERS = (0, 1, -1, -2, 2, 4, 8, 16, 100, 127, 128, 255, 256, 1000, 4096, 65535, 65536, 0xFFFFF, 0x100000)
_INTS = (*_NUMBERS, 0x7FFFFFFF, -0x80000000, 0x10000000, 11, 14, 15, 101, 105, 500, 501)
_LONGS = (*_NUMBERS, 0x7FFFFFFFFFFFFFFF, -0x8000000000000000, 0x7FFFFFFF, 1 << 32, -(1 << 56))

Change = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A changed copy of `data`; `others` are inputs to take pieces from, at least one."""
    changed = bytearray(data)
    for _ in range(1 << chance.choice((0, 0, 1, 1, 2, 3))):
        chance.choice(_CHANGES)(chance, changed, others)
    return bytes(changed[:MOST_BYTES])


def _at(chance: random.Random, data: bytearray) -> int:
    return chance.randrange(len(data)) if data else 0


def _span(chance: random.Random, data: Sequence[int]) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.choice((1, 2, 4, 8, 13, 32, 100)))


def _bit(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[_at(chance, data)] ^= 1 << chance.randrange(8)


def _byte(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[_at(chance, data)] = chance.randrange(256)


def _small(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    """A byte one up or down: counts and lengths are often nearly right."""
    if data:
        at = _at(chance, data)
        data[at] = (data[at] + chance.choice((-1, 1))) & 0xFF


def _int(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _at(chance, data)
    number = chance.choice((*_INTS, len(data), len(data) - at - 4))
    data[at : at + 4] = (number & 0xFFFFFFFF).to_bytes(4, "big")


def _long(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _at(chance, data)
    data[at : at + 8] = (chance.choice(_LONGS) & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")


def _cut(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    start, end = _span(chance, data)
    del data[start:end]


def _end(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[_at(chance, data) :]


def _insert(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = bytes([chance.choice((0, 1, 0x2F, 0xFF, chance.randrange(256)))]) * chance.choice(
        (1, 2, 4, 8)
    )


def _double(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    start, end = _span(chance, data)
    at = chance.randrange(len(data) + 1)
    data[at:at] = data[start:end]


def _splice(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    """A piece of another input, put over or between its bytes."""
    other = chance.choice(others)
    start, end = _span(chance, other)
    at = chance.randrange(len(data) + 1)
    data[at : at + chance.choice((0, end - start))] = other[start:end]


def _cross(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Another input's end behind this one's beginning."""
    other = chance.choice(others)
    data[chance.randrange(len(data) + 1) :] = other[chance.randrange(len(other) + 1) :]


_CHANGES: tuple[Change, ...] = (
    _bit,
    _bit,
    _byte,
    _byte,
    _small,
    _small,
    _int,
    _int,
    _long,
    _cut,
    _cut,
    _end,
    _insert,
    _double,
    _splice,
    _splice,
    _cross,
)
