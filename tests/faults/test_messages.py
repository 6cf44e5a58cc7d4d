"""What the log tells an operator of clients: who came, who was refused, and why each session ended."""

import re

import pytest
from kazoo.exceptions import AuthFailedError

from codec.longs import unsigned
from lab.client.blocking import Client, Disconnected
from lab.servers import ZketcdServer
from lab.servers.waiting import wait_until
from tests.kazoo import kazoo


def test_sessions_and_refusals_have_a_line_each(zketcd_server: ZketcdServer) -> None:
    server = zketcd_server

    def told(pattern: str, session: int = 0) -> None:
        whole = rf" INFO \S+: session 0x{session:x}: {pattern}" if session else pattern
        wait_until(lambda: re.search(whole, server.log_text()), f"the line {whole!r}", timeout=60)

    client = Client(server.port)
    first = unsigned(client.id)
    told(r"opened by 127\.0\.0\.1:\d+, timeout \d+ ms", first)
    client.drop()
    client.reconnect(server.port)
    told(r"continued by 127\.0\.0\.1:\d+", first)
    client.close()
    client.drop()
    told("ended by its client", first)

    silent = Client(server.port, timeout_ms=1000)
    second = unsigned(silent.id)
    silent.drop()
    told("expired: its client was silent", second)
    # Its client comes too late.
    with pytest.raises(Disconnected):
        silent.reconnect(server.port)
    silent.drop()
    told(r"refused to 127\.0\.0\.1:\d+: it has ended, or the password is wrong", second)

    with kazoo(server) as unknown, pytest.raises(AuthFailedError):
        unknown.add_auth("nonsense", "who")
    told(r"WARNING \S+: session 0x\w+: authentication of 127\.0\.0\.1:\d+ refused, scheme 'nonsense'")
