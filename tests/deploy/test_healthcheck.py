"""The image's health check against a server that answers, one that answers something else, and none."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from proxy.admin.facts import NOT_SERVING

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "healthcheck.py"


def _check(listen: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Isolated as in the image: nothing of the repository can be imported.
    return subprocess.run(
        [sys.executable, "-I", str(SCRIPT), *arguments],
        env={"ZKETCD_LISTEN": listen},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("family", "host", "listen"),
    [
        (socket.AF_INET, "127.0.0.1", "0.0.0.0"),
        (socket.AF_INET, "127.0.0.1", ""),
        (socket.AF_INET6, "::1", ""),
        (socket.AF_INET6, "::1", "*"),
        (socket.AF_INET6, "::1", "[::]"),
        (socket.AF_INET6, "::1", "[::1]"),
    ],
)
@pytest.mark.parametrize(
    ("arguments", "answer", "status", "message"),
    [
        ([], b"imok", 0, ""),
        ([], b"null", 1, "answered b'null'"),
        ([], b"im", 1, "answered b'im'"),
        ([], b"", 1, "answered b''"),
        (["ready"], b"Zxid: 0x1\nMode: follower\nNode count: 5\n", 0, ""),
        (["ready"], f"{NOT_SERVING}\n".encode(), 1, "not currently serving requests"),
    ],
)
def test_the_answer_decides(
    arguments: list[str],
    answer: bytes,
    status: int,
    message: str,
    family: socket.AddressFamily,
    host: str,
    listen: str,
) -> None:
    asked = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(4, socket.MSG_WAITALL))
            connection.sendall(answer)

    with socket.create_server((host, 0), family=family) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        checked = _check(f"{listen}:{listener.getsockname()[1]}", *arguments)
        server.join()
    assert (checked.returncode, asked) == (status, [b"srvr" if arguments else b"ruok"])
    assert message in checked.stderr


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "2181x"])
def test_nobody_there_is_unhealthy(listen: str) -> None:
    checked = _check(listen)
    assert checked.returncode == 1
    assert "no answer" in checked.stderr
