"""Warnings of an outage: one now, then one in half a minute."""

import logging
from unittest import mock

import pytest

from proxy.support.throttled_log import ThrottledLog

LOG = logging.getLogger("tests.throttled_log")


def test_the_same_trouble_is_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG.name)
    throttled_log = ThrottledLog(LOG)
    with mock.patch("proxy.support.throttled_log.time.monotonic") as clock:
        for now in (0.0, 0.2, 29.9, 30.0, 31.0):
            clock.return_value = now
            throttled_log.warn("etcd is away for %s s", now)
    assert [(record.levelname, record.args) for record in caplog.records] == [
        ("WARNING", (0.0,)),
        ("DEBUG", (0.2,)),
        ("DEBUG", (29.9,)),
        ("WARNING", (30.0,)),
        ("DEBUG", (31.0,)),
    ]
