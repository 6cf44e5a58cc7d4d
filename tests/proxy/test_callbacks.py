"""All callbacks of the event loop, tasks and threads, and what ends if they raise (docs/decisions/0047).

A new one fails the test until it is listed here, with an answer to that question.
"""

import ast
import functools
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("proxy", "cli", "ctl", "serve", "console")

# Nothing handles what they raise: `support.last_resort` ends the process.
_PROCESS = """
serve/__main__.py add_signal_handler control.requested.set
serve/__main__.py add_signal_handler log.error
serve/__main__.py add_signal_handler logs.toggle_debug
serve/__main__.py add_signal_handler stopped.set
proxy/etcd/asking.py add_done_callback ended
proxy/etcd/client.py call_later _unconfirmed
proxy/etcd/http2.py add_done_callback lambda attempt: attempt.cancelled() or attempt.exception()
proxy/etcd/http2.py call_at self._expire
proxy/etcd/http2.py call_later self._check
proxy/etcd/http2.py call_soon self.wake
proxy/etcd/rpc.py add_done_callback self._got_token
proxy/etcd/rpc.py call_later self._look
proxy/frontend/handshake.py call_later self._ask_for_new
proxy/frontend/identity.py add_done_callback self._stepped
proxy/frontend/listener.py call_later self._give_up
proxy/frontend/transport.py call_later transport.abort
proxy/frontend/opening.py call_soon partial(self._turn, loop)
proxy/frontend/turns.py call_later self._turn_of_reads
proxy/frontend/turns.py call_soon self._next
proxy/frontend/turns.py call_soon self._next_slice
proxy/frontend/turns.py call_soon self._resume
proxy/handover/receiver.py call_soon loop.call_soon
proxy/log/append/appender.py call_later self._gathered
proxy/log/append/appender.py call_soon self._pump
proxy/log/combine/combiner.py call_later self._waited
proxy/log/combine/combiner.py call_soon self._go_on
proxy/log/combine/client.py call_later self._look_for_late
proxy/log/combine/server.py call_later self.close
proxy/log/follow/watch_guard.py call_later self._look
proxy/log/slices.py call_soon callback
proxy/log/slices.py call_soon self._next_slice
proxy/admin/connections.py call_later self.abort
proxy/support/tls_pieces.py call_later self.abort
proxy/support/child.py add_reader orphaned.set
proxy/support/spawn.py Thread self._wait
proxy/support/spawn.py call_soon_threadsafe self._end
proxy/support/handshakes.py add_done_callback self._ended
proxy/support/handshakes.py call_at self._end_the_longest
proxy/support/handshakes.py call_later self._end_the_longest
proxy/support/handshakes.py call_soon self._begin_some
proxy/support/inflow.py call_soon self._next_turn
proxy/support/outflow.py call_soon self._next_turn
proxy/support/ports.py add_reader _finish
proxy/support/ports.py add_reader self._accept
proxy/support/log_backlog.py Thread self._write
proxy/support/ports.py call_later self._accept_again
proxy/support/ports.py add_done_callback partial(self._begun, client, place)
proxy/support/tasks.py add_done_callback partial(self._ended, reported)
proxy/watchdog.py Thread self._run
proxy/watchdog.py call_soon_threadsafe self._turn
console/sessions/local_session.py call_soon self._session.closed
"""

# They end the connection of one client, or what becomes one.
_CONNECTION = """
proxy/frontend/listener.py add_reader self._look
proxy/frontend/opening.py call_later give_up
"""

# Who starts them gets the failure, by a registry, an `await` or a callback.
_AWAITED = """
serve/__main__.py create_task _end_of(embedded)
serve/__main__.py create_task server.failed()
serve/__main__.py create_task server.start(_print_progress, main, secure, taking, reading)
serve/__main__.py create_task stopped.wait()
proxy/etcd/http2.py create_task self._connect(loop)
proxy/frontend/identity.py run_in_executor exchange.step
proxy/handover/upgrade.py create_task Sender(server, sockets).run(start)
proxy/handover/upgrade.py create_task control.requested.wait()
proxy/log/upkeep/archiving.py create_task self._read(child)
proxy/support/child.py create_task orphaned.wait()
proxy/support/child.py create_task work
proxy/support/tasks.py create_task coroutine
proxy/support/tasks.py create_task each
"""

# Nothing depends on them: the last spans of traces; the child that reads the archive for the console.
_NOTHING = """
proxy/traces/otel.py Thread self._provider.shutdown
console/answers/past.py create_task self._end_when_idle()
"""

# What catches each exception, and why none is lost.
_CAUGHT = {
    "proxy/support/tls_pieces.py BaseException": "closes the connection, and raises it again",
    "proxy/support/tls_pieces.py Exception": "the connection is closed; no memory: `contained`",
    "proxy/admin/connections.py Exception": "ends one connection of the admin port",
    "proxy/admin/http.py Exception": "the answer to the request is an error; no memory: `contained`",
    "cli/client.py BaseException": "raises it again; a command",
    "ctl/history.py Exception": "a command",
    "proxy/etcd/embedded.py BaseException": "raises it again",
    "proxy/etcd/http2.py Exception": "`Http2Call.listen` raises it",
    "proxy/frontend/connection.py Exception": "the connection ends; no memory: `contained`",
    "proxy/frontend/listener.py Exception": "the client is closed; no memory: `contained`",
    "proxy/frontend/order.py Exception": "raises it again",
    "proxy/handover/receiver.py Exception": "the client is closed; no memory: `contained`",
    "proxy/handover/sender.py BaseException": "raises it again",
    "proxy/handover/sender.py Exception": "raises Lost, which ends the process",
    "proxy/log/applier.py Exception": "the log has failed, which ends the process",
    "proxy/log/slices.py BaseException": "raises it again",
    "proxy/log/upkeep/snapshot_writer.py Exception": "the snapshot fails, and its process ends",
    "proxy/support/ports.py Exception": "the client is closed; no memory: `contained`",
    "proxy/state/machine.py Exception": "the request fails at all servers; no memory is not caught",
    "console/http.py Exception": "the answer to the request is an error; no memory: `contained`",
    "console/sessions/local_session.py BaseException": "raises it again",
}

# Where the callback is among the arguments.
_PLACES = {
    "add_done_callback": 0,
    "add_reader": 1,
    "add_signal_handler": 1,
    "call_at": 1,
    "call_later": 1,
    "call_soon": 0,
    "call_soon_threadsafe": 0,
    "create_task": 0,
    "ensure_future": 0,
    "run_in_executor": 1,
    "Thread": 0,
}


@functools.cache
def _nodes() -> list[tuple[str, ast.Call | ast.ExceptHandler]]:
    return [
        (path.relative_to(_ROOT).as_posix(), node)
        for source in _SOURCES
        for path in sorted((_ROOT / source).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.ExceptHandler)
    ]


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def test_each_callback_is_listed_with_what_it_ends() -> None:
    found = set()
    for name, node in _nodes():
        if isinstance(node, ast.Call) and (called := _called(node)) in _PLACES:
            arguments = [*node.args, *(each.value for each in node.keywords)]
            found.add(f"{name} {called} {ast.unparse(arguments[_PLACES[called]])}")
        # A group would raise in whatever task has opened it: see `together`.
        assert not (isinstance(node, ast.Call) and _called(node) == "TaskGroup"), name
    listed = Counter(
        line for part in (_PROCESS, _CONNECTION, _AWAITED, _NOTHING) for line in part.splitlines() if line
    )
    assert found == set(listed)
    assert max(listed.values()) == 1


def test_each_place_that_catches_all_exceptions_is_listed() -> None:
    found = {
        f"{name} {'' if node.type is None else ast.unparse(node.type)}"
        for name, node in _nodes()
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    }
    assert found == set(_CAUGHT)
