"""A proxy with a prelude of a test's choice: Python code that runs in its process before `python -m serve`.

Here: how the code gets there, and preludes. What one replaces is a function of the standard library or of the
proxy; modules that are imported later see the replacement.
"""

import contextlib
from collections.abc import Iterator, Sequence

from lab.servers import EtcdServer, ZketcdServer

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


# The release knows the next level of the semantics as well. Modules that import KNOWN must find this value.
NEXT_LEVEL = """
import proxy.state.level
proxy.state.level.KNOWN = frozenset((1, 2))
"""


class ServerWithPrelude(ZketcdServer):
    """A proxy that runs `prelude` first."""

    prelude = ""

    def command(self) -> Sequence[str]:
        """As `python -m serve`, with the code before it."""
        python, _, _, *arguments = super().command()
        # As with -m, modules are found in the working folder.
        start = "import runpy; runpy.run_module('serve', None, '__main__', True)"
        source = f"import sys; sys.path[0] = ''\n{self.prelude}\n{start}"
        return [python, "-c", source, *arguments]


@contextlib.contextmanager
def with_prelude(prelude: str, etcd: EtcdServer | str, **options: object) -> Iterator[ServerWithPrelude]:
    """A proxy with this prelude, on an etcd."""
    endpoint = etcd.endpoint if isinstance(etcd, EtcdServer) else etcd
    defaults: dict[str, object] = {
        "tick_time": 500,
        "max_session_timeout": 40_000,
        "max_client_connections": 0,
    }
    server = ServerWithPrelude(endpoint, **{**defaults, **options})  # type: ignore[arg-type]
    server.prelude = prelude
    with server:
        yield server
