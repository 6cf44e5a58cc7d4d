"""A decoder with one defect of each kind, behind a condition that chance alone does not meet."""

from codec.errors import MalformedPacket
from proof.fuzzing.target import Target, Wrong

GOOD = bytes((0x10, 0x20, 0x30, 0, 0, 0, 0, 0))
KINDS = ("IndexError", "Wrong", "memory", "endless")
NONE = "none"


def decode(data: bytes, defect: str) -> int:
    """Three bytes that must be right one after the other lead to the defect."""
    if len(data) < len(GOOD):
        raise MalformedPacket("cut")
    if data[0] == 0x15:
        if data[1] == 0x25:
            if data[2] == 0x35:
                return _deep(data, defect)
            return 3
        return 2
    return 1


def _deep(data: bytes, defect: str) -> int:
    if defect == "IndexError":
        return data[len(data)]
    if defect == "Wrong":
        raise Wrong("two ways disagree")
    if defect == "memory":
        return len([bytearray(5 << 20)])
    if defect == NONE:
        return 4
    while True:
        pass


def _target(defect: str) -> Target:
    return Target(defect, "A planted one.", lambda data: decode(data, defect), (MalformedPacket,))


TARGETS = {defect: _target(defect) for defect in (*KINDS, NONE)}
