"""A decoder with defects, each behind a condition that chance alone does not meet."""

from codec.errors import MalformedPacket
from proof.fuzzing.target import Target, Wrong

GOOD = bytes((0x10, 0x20, 0x30, 0x40, 0, 0, 0, 0))


def decode(data: bytes) -> int:
    """Four bytes that must be right one after the other, then what the defect is."""
    if len(data) < len(GOOD):
        raise MalformedPacket("cut")
    if data[0] == 0x15:
        if data[1] == 0x25:
            if data[2] == 0x35:
                return _deep(data)
            return 3
        return 2
    return 1


def _deep(data: bytes) -> int:
    kind = data[3]
    if kind < 0x40:
        return data[len(data)]
    if kind < 0x60:
        raise Wrong("two ways disagree")
    if kind < 0x80:
        return len([bytearray(5 << 20)])
    if kind < 0xA0:
        while True:
            kind += 1
    raise MalformedPacket("an error that is documented")


TARGET = Target("defects", "Planted ones.", (__name__,), decode, (MalformedPacket,))
