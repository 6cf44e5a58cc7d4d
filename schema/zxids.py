"""Zxids. The upper half is the epoch: within one, zxids count from 1."""

_END = 1 << 63  # a zxid is signed
_YEAR_2020 = 1577836800  # seconds since 1970
_LAST_BY_CLOCK = (1 << 31) - (1 << 24)  # of 2087; a wrong clock must not use all epochs up


def next_epoch(zxid: int) -> int:
    """Where zxids continue, above all of the epoch of `zxid`. Raises ValueError for the last epoch."""
    continued = (zxid >> 32) + 1 << 32
    if not 0 < continued < _END:
        raise ValueError(f"there is no epoch of zxids above 0x{zxid:x}")
    return continued


def epoch_at(seconds: float) -> int:
    """What `next_epoch` has to be above in a tree that begins an epoch at this time; `seconds` since 1970.

    A restored tree does not know of restores after its backup, nor a ZooKeeper of cut-overs. By the clock two
    of them begin different epochs, unless that is within a second, or clocks differ. A ZooKeeper, which
    counts elections, has fewer of them than seconds.
    """
    return max(0, min(int(seconds) - _YEAR_2020, _LAST_BY_CLOCK)) << 32


def zxid_to_exceed(seconds: float, zxid: int) -> int:
    """What a request for an epoch asks for (`Epoch.zxid_at_least`): above `zxid`, and begun at this time."""
    return max(zxid + 1, epoch_at(seconds))


def epoch_begun_at(seconds: float, zxid: int) -> int:
    """Where zxids continue in a tree that begins at this time with what another one holds, up to `zxid`.

    They are above all that clients may have seen, also of another tree that began so in an earlier second.
    Raises ValueError for the last epoch.
    """
    return next_epoch(max(zxid, epoch_at(seconds)))
