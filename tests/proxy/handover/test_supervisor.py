"""Where the first process cannot pass signals on, it goes on serving."""

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
