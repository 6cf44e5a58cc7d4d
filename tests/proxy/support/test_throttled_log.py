"""Warnings of an outage: one now, then one in half a minute."""

import logging

import pytest

from lab.fakes.clock import FakeClock
from proxy.support.throttled_log import ThrottledLog

LOG = logging.getLogger("tests.throttled_log")


def test_the_same_warning_appears_every_30_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG.name)
    clock = FakeClock()
    throttled_log = ThrottledLog(LOG, clock)
    for clock.now in (0.0, 0.2, 29.9, 30.0, 31.0):
        throttled_log.warn("etcd is away for %s s", clock.now)
    assert [(record.levelname, record.args) for record in caplog.records] == [
        ("WARNING", (0.0,)),
        ("DEBUG", (0.2,)),
        ("DEBUG", (29.9,)),
        ("WARNING", (30.0,)),
        ("DEBUG", (31.0,)),
    ]
