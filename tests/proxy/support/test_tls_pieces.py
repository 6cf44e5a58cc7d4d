"""What a client sends over TLS is taken in pieces, and comes whole."""

import asyncio
import ssl
from pathlib import Path
from random import Random

import uvloop

from lab.servers.tls import Authority
from proxy.support.environment import HOST, Clock
from proxy.support.tls_pieces import InPieces
from tests.proxy.log.proxies import until


class _Slow(Clock):
    """As if each piece took a second."""

    thread_time = staticmethod(iter(range(10_000)).__next__)


class _Taken(asyncio.Protocol):
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.turns: list[int] = []
        self.turn = 0
        self.calls: list[str] = []
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")
        self._count()

    def _count(self) -> None:
        self.turn += 1
        if not self.lost.done():
            asyncio.get_running_loop().call_soon(self._count)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.turns.append(self.turn)

    def eof_received(self) -> None:
        self.calls.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost.set_result(None)


async def _sent(folder: Path, data: bytes, clock: Clock) -> _Taken:
    authority = Authority(folder)
    pair = authority.issue("server", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    taken = _Taken()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: InPieces(taken, clock), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.client_context())
    writer.write(data)
    await writer.drain()
    await until(lambda: sum(map(len, taken.pieces)) == len(data))
    writer.close()
    await until(taken.lost.done)
    server.close()
    return taken


def _run(folder: Path, data: bytes, clock: Clock = HOST.clock) -> _Taken:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_sent(folder, data, clock))


def test_much_comes_in_one_piece_a_turn(tmp_path: Path) -> None:
    data = Random(1).randbytes(100_000)
    taken = _run(tmp_path, data)
    assert b"".join(taken.pieces) == data
    assert max(map(len, taken.pieces)) <= 1024
    assert len(set(taken.turns)) == len(taken.turns)
    assert taken.calls[0] == "made"
    assert taken.calls[-1] == "lost"


def test_what_takes_long_comes_in_the_smallest_pieces(tmp_path: Path) -> None:
    data = Random(2).randbytes(10_000)
    taken = _run(tmp_path, data, _Slow())
    assert b"".join(taken.pieces) == data
    assert max(map(len, taken.pieces)) == 128
