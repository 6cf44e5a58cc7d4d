"""Ports that tests take: two processes never hold the same one."""

import socket
import subprocess
import sys

import pytest

from lab.servers import ports

_HOLDER = "from lab.servers import free_port; print(free_port(), flush=True); input()"


def _only(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_FIRST", port)
    monkeypatch.setattr(ports, "_LAST", port + 1)


def _none_is_free() -> None:
    with pytest.raises(OSError, match="no free port"):
        ports.free_port()


def test_a_port_that_another_process_was_given_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing listens on it yet; when the process has ended, it is free for others."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        _only(port, monkeypatch)
        _none_is_free()
        holder.stdin.close()
    assert ports.free_port() == port
    _none_is_free()


def test_a_port_that_something_listens_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", ports.free_port())) as listener:
        _only(listener.getsockname()[1], monkeypatch)
        monkeypatch.setattr(ports, "_given", set())
        _none_is_free()
