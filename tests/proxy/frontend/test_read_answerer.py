"""Reads that are answered at once, and requests of other kinds at their place."""

import pytest

from codec.constants import ErrorCode
from lab.client import packets
from lab.fakes.connection import established


@pytest.mark.parametrize("opcode", [0, -1, 77])
def test_an_unknown_request_ends_the_connection(opcode: int) -> None:
    """Also 0, which was taken for the opcode of the read before it."""
    client = established()
    client.send(packets.request(2, opcode))
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(2, ErrorCode.UNIMPLEMENTED)]
    assert client.transport.is_closed()
    client.lose()
