"""Ports that tests take: two processes never hold the same one."""

import socket
import subprocess
import sys

import pytest

from lab.servers import ports

_HOLDER = "from lab.servers import free_port; print(free_port(), flush=True); input()"


def test_a_port_that_another_process_was_given_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing listens on it yet; when the process has ended, it is free for others."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        monkeypatch.setattr(ports, "_FIRST", port)
        monkeypatch.setattr(ports, "_LAST", port + 1)
        with pytest.raises(OSError, match="no free port"):
            ports.free_port()
        holder.stdin.close()
    assert ports.free_port() == port
    with pytest.raises(OSError, match="no free port"):
        ports.free_port()


def test_a_port_that_something_listens_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", ports.free_port())) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(ports, "_given", set())
        monkeypatch.setattr(ports, "_FIRST", port)
        monkeypatch.setattr(ports, "_LAST", port + 1)
        with pytest.raises(OSError, match="no free port"):
            ports.free_port()
