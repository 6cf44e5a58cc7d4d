"""Descriptors: what is for whom, and that the limit is raised."""

import resource
import subprocess
import sys

from proxy.support.descriptors import share
from tests.table import one_by_one


@one_by_one("limit", [16, 64, 200, 256, 1024, 65536, 1 << 20, 1 << 30])
def test_clients_never_get_all(limit: int) -> None:
    shares = share(limit)
    assert shares.clients >= 1
    reserve = limit - shares.clients - shares.admin - shares.peers
    assert reserve == min(64, limit // 2)
    assert min(shares.admin, shares.peers) > 0


def test_few_are_worth_a_warning_with_numbers() -> None:
    assert share(200) == (200, 25, 25, 86)
    warning = share(200).warning
    assert "200 open files: at most 86 clients can connect" in warning
    assert "LimitNOFILE=" in warning
    assert not share(65536).warning


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    program = "from proxy.support.descriptors import raised; print(raised().limit)"
    found = subprocess.run(
        ["prlimit", "--nofile=100:", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) == hard
