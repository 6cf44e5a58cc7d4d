"""The process that hands over continues as before if the new one fails."""

from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from proxy.handover.channel import HandoverError, Message
from proxy.handover.moved import FORM
from proxy.handover.sender import Sender


def _channel() -> Any:
    """Of a new process that ends after it has asked for the sessions."""

    async def receive(kind: str, timeout: float = 0) -> Message:
        if kind == "carried":
            raise HandoverError("the new process has ended")
        return Message(kind, {"release": 2, "form": FORM, "place": {}, "incarnation": "new"}, [])

    return MagicMock(receive=receive, send=AsyncMock())


async def test_a_session_that_goes_to_a_process_that_has_ended_holds_nothing() -> None:
    """Its append may take effect after its end. This proxy applied nothing more then (stormy seed 133)."""
    server = MagicMock(place={}, connections=[], thaw=AsyncMock())
    server.log.outbox.outstanding = 0
    server.log.take_back = AsyncMock()
    sender = Sender(server, {})
    with pytest.raises(HandoverError, match="has ended"):
        await sender.run(AsyncMock(return_value=MagicMock(channel=_channel(), end=AsyncMock())))
    server.log.take_back.assert_awaited_once_with("new", server.log.contact())
    _, carried = server.sessions.expect_successor.call_args.args
    carried()
    server.log.applier.worker.hold.assert_not_called()
