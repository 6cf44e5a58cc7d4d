"""A crowd of sessions."""

import pytest

from bench import wire
from bench.scenarios import crowd
from lab.servers import ZooKeeperServer


def test_a_crowd_opened_in_pieces_is_one(
    zookeeper_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "PIECE", 2)
    with crowd.crowd(zookeeper_server.port, 5) as sessions:
        assert len(sessions.sockets) == 5
        # Nothing is left of the pings meanwhile: the next answers are those to the next question.
        sessions.ask(wire.packet(1, wire.EXISTS, wire.text(b"/") + b"\0"), wire.REPLY_SIZE + wire.STAT_SIZE)
