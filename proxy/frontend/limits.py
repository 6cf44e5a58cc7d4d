"""Limits on the requests and replies of one client that wait. Data only. Pure."""

from typing import NamedTuple

from proxy.state.pause import LENGTHS


class Limits(NamedTuple):
    """The limits of one connection."""

    #: Replies of more bytes than this are counted, so that a client that does not read them is noticed.
    large_reply: int = 4096
    #: Bytes of large replies after which a run of reads is interrupted, so that the replies are sent.
    unsent: int = 64 << 10
    #: Bytes of replies and events that are kept for a client that does not read. They must be made because
    #: later writes of the client are in the log already. Above this limit the connection is closed.
    forced: int = 64 << 20
    #: Nanoseconds that the heavy reads of one client may take before other clients are served.
    stretch: int = 2_500_000
    #: Reads between two writes are answered without a break if the second write is already in the log. So a
    #: write waits for the reads before it if these are too many: more than so many light ones, or a few heavy
    #: ones.
    ahead: int = 128
    heavy_weight: int = 32
    #: A request with parts that has more bytes is decoded only when it is applied.
    decoded_at_once: int = LENGTHS.decoded_at_once


LIMITS = Limits()
"""The limits that a server uses."""
