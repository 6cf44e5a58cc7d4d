"""No test of the log waits for a pause between two attempts."""

import pytest

from proxy.etcd import repeating
from proxy.log.append import registration
from proxy.log.follow import log_follower
from proxy.log.load import start
from proxy.log.upkeep import truncation


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (start, log_follower, repeating):
        monkeypatch.setattr(module, "_RETRY", 0.001)
    monkeypatch.setattr(truncation, "_PAUSE", 0)
    monkeypatch.setattr(registration, "_FULL_PAUSE", 0.02)
