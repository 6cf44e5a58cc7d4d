"""No test of the log waits for a pause between two attempts."""

import pytest

from proxy.log import membership, standby, start, stream, truncation


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (start, stream, truncation):
        monkeypatch.setattr(module, "_RETRY", 0.001)
    monkeypatch.setattr(truncation, "_PAUSE", 0)
    monkeypatch.setattr(membership, "_FULL_PAUSE", 0.02)
    monkeypatch.setattr(standby, "_INTERVAL", 0.001)
