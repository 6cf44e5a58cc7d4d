"""Zxids. The upper half is the epoch: within one, zxids count from 1."""

_END = 1 << 63  # a zxid is signed


def next_epoch(zxid: int) -> int:
    """Where zxids continue, above all that clients may have seen. Raises ValueError for the last epoch."""
    continued = (zxid >> 32) + 1 << 32
    if not 0 < continued < _END:
        raise ValueError(f"there is no epoch of zxids above 0x{zxid:x}")
    return continued
