"""Whom the first process passes signals on to; where it cannot, it goes on serving."""

import signal
from pathlib import Path

import pytest

from proxy.handover import supervisor


def _hidden() -> set[int]:
    raise FileNotFoundError(2, "No such file or directory", "/proc/net/unix")


def test_without_proc_there_is_no_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ended the first process alone, and the one that served went on."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert supervisor.obstacle() == ""
    monkeypatch.setattr(supervisor, "serving", _hidden)
    assert supervisor.obstacle().startswith("/proc/net/unix cannot be read")


def test_systemd_needs_no_such_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    monkeypatch.setattr(supervisor, "serving", _hidden)
    assert supervisor.obstacle() == ""


def test_what_a_serving_process_has_started_is_its_own_to_end(tmp_path: Path) -> None:
    """After an upgrade in a container, `docker stop` ended the archiver of a proxy that still drained."""
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 10, 30: 1, 31: 30}  # 10 serves, and 20
    for pid, parent in parents.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} 1")
    assert list(supervisor.receivers(signal.SIGTERM, 1, {10, 20}, tmp_path)) == [10, 20, 30, 31]
    assert list(supervisor.receivers(signal.SIGHUP, 1, {10, 20}, tmp_path)) == [10, 20]
