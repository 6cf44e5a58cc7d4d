"""64 bits as a signed long, as ZooKeeper has them, and without a sign, as people read them."""

_BITS = (1 << 64) - 1
_SIGN = 1 << 63


def unsigned(value: int) -> int:
    """The lowest 64 bits without a sign: of a long, or of a sum of digests."""
    return value & _BITS


def signed(value: int) -> int:
    """The lowest 64 bits as a long."""
    return ((value & _BITS) ^ _SIGN) - _SIGN


def hex64(value: int) -> str:
    """A zxid or a session's id as ZooKeeper prints it. A server's id above 127 makes ids negative."""
    return f"0x{value & _BITS:x}"
