"""A proxy with a defect of a test's choice: Python code that runs in its process before `python -m proxy`.

Here: how the code gets there, and the defects. What is replaced is a function of the standard library
or of the proxy; modules that are imported later see the replacement.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence

from lab.servers import EtcdServer, ZketcdServer

# The host's clock is wrong. The monotonic clock is not, as on a host whose date was set wrongly.
_CLOCK = """
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {seconds}
time.time_ns = lambda: _time_ns() + {seconds} * 1_000_000_000
"""

# Not SIGUSR1 and SIGUSR2, which the proxy takes for itself.
# SIGRTMIN: the watch delivers nothing more, while all other calls are answered. SIGRTMAX: it goes on.
STALLING_WATCH = """
import asyncio, signal
from proxy.etcd.client import EtcdClient
stalled = []
signal.signal(signal.SIGRTMIN, lambda *_: stalled.append(True))
signal.signal(signal.SIGRTMAX, lambda *_: stalled.clear())
watch = EtcdClient.watch
async def stalling(self, start, end, revision, on_message):
    held = []
    def pass_on():
        while held and not stalled:
            on_message(held.pop(0))
    def take(message):
        held.append(message)
        pass_on()
    async def go_on():
        while True:
            await asyncio.sleep(0.01)
            pass_on()
    going_on = asyncio.ensure_future(go_on())
    try:
        await watch(self, start, end, revision, take)
    finally:
        going_on.cancel()
EtcdClient.watch = stalling
"""

# The same, and whoever reads what the watch has not brought waits too.
STALLING_STREAM = (
    STALLING_WATCH
    + """
import proxy.log.stream
catch_up = proxy.log.stream.catch_up
async def waiting(*arguments):
    while stalled:
        await asyncio.sleep(0.01)
    return await catch_up(*arguments)
proxy.log.stream.catch_up = waiting
"""
)

# SIGRTMIN: one bit of the data of the node /flip changes in memory.
FLIPPING_DATA = """
import signal
from proxy.server import Server
from proxy.state.node import full_node
start = Server.start
async def started(self, *arguments):
    def flip(*_):
        node = full_node(self.machine.tree.nodes, "/flip")
        node.data = bytes([node.data[0] ^ 1]) + node.data[1:]
        print("flipped", flush=True)
    signal.signal(signal.SIGRTMIN, flip)
    await start(self, *arguments)
Server.start = started
"""

# A create of /poison fails in the state machine, by an error of the program.
POISON = """
from proxy.state.transaction import Transaction
create = Transaction.create
def creating(self, path, *arguments, **named):
    result = create(self, path, *arguments, **named)
    if path.startswith("/poison"):
        raise RuntimeError("injected")
    return result
Transaction.create = creating
"""

# The release knows the next level of the semantics as well. Whoever imports KNOWN must find it so.
NEXT_LEVEL = """
import proxy.state.level
proxy.state.level.KNOWN = frozenset((1, 2, 3))
"""

# The event loop gets to its work only for a tenth of the time.
BUSY = """
import asyncio, time
from proxy.server import Server
start = Server.start
async def started(self, *arguments):
    await start(self, *arguments)
    loop = asyncio.get_running_loop()
    def block():
        time.sleep(0.9)
        loop.call_later(0.1, block)
    block()
Server.start = started
"""


def wrong_clock(seconds: int) -> str:
    """The host's date is ahead by this, or behind."""
    return _CLOCK.format(seconds=seconds)


class PreparedServer(ZketcdServer):
    """A proxy that runs `prelude` first."""

    prelude = ""

    def command(self) -> Sequence[str]:
        """As `python -m proxy`, with the code before it."""
        python, _, _, *arguments = super().command()
        # As with -m, modules are found in the working folder.
        start = "import runpy; runpy.run_module('proxy', None, '__main__', True)"
        source = f"import sys; sys.path[0] = ''\n{self.prelude}\n{start}"
        return [python, "-c", source, *arguments]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal that the prelude waits for."""
        os.kill(self.pid, number)


@contextlib.contextmanager
def prepared(prelude: str, etcd: EtcdServer | str, **options: object) -> Iterator[PreparedServer]:
    """A proxy with this prelude, on an etcd."""
    endpoint = etcd.endpoint if isinstance(etcd, EtcdServer) else etcd
    defaults: dict[str, object] = {
        "tick_time": 500,
        "max_session_timeout": 40_000,
        "max_client_connections": 0,
    }
    server = PreparedServer(endpoint, **{**defaults, **options})  # type: ignore[arg-type]
    server.prelude = prelude
    with server:
        yield server
