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


def _answered(
    answer: bytes, *arguments: str, listen: str = "127.0.0.1", family: int = socket.AF_INET
) -> tuple[list[bytes], int, str]:
    """What a server with this answer is asked, the exit code, and what is said."""
    asked = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(4, socket.MSG_WAITALL))
            connection.sendall(answer)

    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with socket.create_server((host, 0), family=family) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        checked = _check(f"{listen}:{listener.getsockname()[1]}", *arguments)
        server.join()
    return asked, checked.returncode, checked.stderr


@pytest.mark.parametrize(
    ("family", "listen"),
    [
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET, ""),
        (socket.AF_INET6, ""),
        (socket.AF_INET6, "*"),
        (socket.AF_INET6, "[::]"),
        (socket.AF_INET6, "[::1]"),
    ],
)
def test_a_server_is_found_where_it_listens(family: int, listen: str) -> None:
    assert _answered(b"imok", listen=listen, family=family) == ([b"ruok"], 0, "")


@pytest.mark.parametrize(
    ("arguments", "answer", "status", "message"),
    [
        ([], b"null", 1, "answered b'null'"),
        ([], b"im", 1, "answered b'im'"),
        ([], b"", 1, "answered b''"),
        ([], b"ruok is not executed because it is not in the whitelist.\n", 0, ""),
        (["ready"], b"Zxid: 0x1\nMode: follower\nNode count: 5\n", 0, ""),
        (["ready"], f"{NOT_SERVING}\n".encode(), 1, "not currently serving requests"),
    ],
)
def test_the_answer_decides(arguments: list[str], answer: bytes, status: int, message: str) -> None:
    asked, code, said = _answered(answer, *arguments)
    assert (asked, code) == ([b"srvr" if arguments else b"ruok"], status)
    assert message in said


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "2181x"])
def test_nobody_there_is_unhealthy(listen: str) -> None:
    checked = _check(listen)
    assert checked.returncode == 1
    assert "no answer" in checked.stderr
