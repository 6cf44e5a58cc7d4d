"""How much of one client's requests and replies may wait. Data only. Pure."""

from typing import NamedTuple

from proxy.state.pause import LENGTHS


class Limits(NamedTuple):
    """The limits of one connection."""

    #: Replies of more bytes than this are counted, so that a client that does not read them is noticed.
    large_reply: int = 4096
    #: Bytes of large replies after which a run of reads is interrupted, so that they are sent.
    unsent: int = 64 << 10
    #: Bytes of replies and events that are kept for a client that does not read, because writes behind their
    #: requests are in the log already. Beyond that the connection is closed.
    forced: int = 64 << 20
    #: Nanoseconds that the heavy reads of one client may take before other clients have their turn.
    stretch: int = 10_000_000
    #: Reads between two writes are answered in one go, once the second write is in the log. So a write waits
    #: for the reads before it if these are too many: more than so many light ones, or a few heavy ones.
    ahead: int = 128
    heavy_weight: int = 32
    #: Bytes of a request with parts beyond which it is decoded only when it is applied.
    decoded_at_once: int = LENGTHS.decoded_at_once


LIMITS = Limits()
"""What a server uses."""
