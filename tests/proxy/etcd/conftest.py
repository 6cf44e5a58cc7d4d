"""Tests run by each transport."""

from collections.abc import Iterator

import pytest

from proxy.options.etcd import TRANSPORTS
from tests.proxy.etcd.clients import using


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """How clients of this test reach etcd."""
    with using(request.param) as transport:
        yield transport
