"""What damage can do to a stored value: every truncation, every single byte flipped, bytes added."""

from collections.abc import Callable, Iterator

from schema.errors import BadValue


def damaged(value: bytes) -> Iterator[bytes]:
    for size in range(len(value)):
        yield value[:size]
    yield value + b"\0"
    yield b"\0" + value
    for place, byte in enumerate(value):
        for flip in (0x01, 0x20, 0xFF):
            yield value[:place] + bytes((byte ^ flip,)) + value[place + 1 :]


def assert_all_damage_is_refused(decode: Callable[[bytes], object], value: bytes) -> None:
    decode(value)
    for bad in damaged(value):
        try:
            decode(bad)
        except BadValue:
            continue
        raise AssertionError(f"{bad!r} is not refused")
