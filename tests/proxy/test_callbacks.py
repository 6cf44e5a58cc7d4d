"""What an exception ends: the process, unless it is caught or kept by a task (docs/decisions/0047).

A new place that catches all exceptions, or starts tasks, fails the test until it is listed with an answer.
"""

import ast
import functools
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("proxy", "cli", "ctl", "serve", "console")

# These start tasks or work in threads, whose exceptions nobody sees who does not ask for them. Who does?
_ASKED = {
    "serve/__main__.py": "awaits them",
    "serve/archiving.py": "awaits it",
    "proxy/etcd/http2.py": "awaits it, or a callback asks it",
    "proxy/frontend/identity.py": "a callback asks it",
    "proxy/handover/upgrade.py": "awaits them",
    "proxy/support/child.py": "awaits them",
    "proxy/support/names.py": "a callback asks it, and who waits for it",
    "proxy/support/tasks.py": "a callback asks them, or who waits for all of `together`",
    "console/answers/past.py": "nobody: nothing depends on the child that reads the archive",
}

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

_STARTED = ("create_task", "ensure_future", "run_in_executor")


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


def test_each_file_that_starts_tasks_is_listed() -> None:
    calls = [(name, _called(node)) for name, node in _nodes() if isinstance(node, ast.Call)]
    assert {name for name, called in calls if called in _STARTED} == set(_ASKED)
    # A group would raise in whatever task has opened it: see `together`.
    assert not [name for name, called in calls if called == "TaskGroup"]


def test_each_place_that_catches_all_exceptions_is_listed() -> None:
    found = {
        f"{name} {'' if node.type is None else ast.unparse(node.type)}"
        for name, node in _nodes()
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    }
    assert found == set(_CAUGHT)
