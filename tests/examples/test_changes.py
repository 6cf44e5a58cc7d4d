"""The ten lines that follow a tree, and the page that has them."""

import inspect
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from examples import changes
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.ports import free_port


class _OverError(Exception):
    """The test is over."""


_PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_program_has_each_change_once_when_the_proxy_is_started_anew(
    etcd_server: EtcdServer, etcd_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, over = f"127.0.0.1:{free_port()}", threading.Event()
    found: list[dict[str, Any]] = []

    def pause(_seconds: float) -> None:
        if over.wait(0.1):
            raise _OverError

    def follow() -> None:
        with suppress(_OverError):
            for each in changes.changes(f"http://{admin}", "path=/app"):
                found.append(each)  # noqa: PERF402 - it never ends

    def versions() -> list[int]:
        return [each["version_after"] for each in found if each["change"] == "set"]

    monkeypatch.setattr(changes, "sleep", pause)
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, admin_listen=admin) as proxy:
        reader = threading.Thread(target=follow)
        reader.start()
        with Client(proxy.port) as client:
            client.create("/app")

            def written() -> bool:
                client.write("/app", b"")
                return bool(versions())

            wait_until(written, "a change is followed", 60)
        proxy.restart()
        with Client(proxy.port) as client:
            last = client.write("/app", b"").version
            wait_until(lambda: versions()[-1] == last, "the program goes on", 60)
        over.set()
    reader.join()
    assert versions() == list(range(versions()[0], last + 1))


def test_the_page_has_the_program() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text().partition("## /changes")[2], re.S)[:1]
    source = [line.strip() for line in inspect.getsource(changes.changes).splitlines()]
    shown = [line.strip() for line in block.splitlines() if line.strip()]
    assert shown
    assert [line for line in shown if line not in source] == []
