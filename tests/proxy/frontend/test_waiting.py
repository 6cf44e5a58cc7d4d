"""What stands in a connection's queue."""

from proxy.frontend.waiting import UNKNOWN, Write
from proxy.log.pending import Pending
from schema.entry import Identity, Kind


def test_a_write_is_a_request_for_the_log() -> None:
    def done(_pending: Pending, _zxid: int, _err: int, _body: bytes) -> None:
        pass

    identities = (Identity("ip", "10.0.0.7"),)
    write = Write(7, 5, identities, b"body", done, ("/a", b"", -1), 3, 12, 99)
    pending = Pending(Kind.CLIENT, 7, 5, identities, b"body", ("/a", b"", -1))
    for name in Pending.__slots__:
        assert getattr(write, name) == getattr(pending, name)
    assert (write.xid, write.size, write.received, write.zxid) == (3, 12, 99, UNKNOWN)
    assert not hasattr(write, "__dict__")
