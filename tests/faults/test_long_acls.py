"""Long ACLs that were made before: what looks at them is cheap, and others are answered meanwhile."""

from concurrent.futures import ThreadPoolExecutor

from codec.client import check, create, multi
from codec.jute import OPEN_ACL, Acl
from lab.client.blocking import Client
from tests.faults.conftest import Start

_NODES = 10
_ENTRIES = 10_000
_CHECKS = 40_000


def test_a_multi_of_checks_of_long_acls_lets_others_read(start: Start) -> None:
    """Ten nodes whose last entry permits all, and 1 MiB of checks: it took hours at every proxy."""
    proxy = start(None)
    with Client(proxy.port) as client, Client(proxy.port) as other:
        client.create("/n")
        for node in range(_NODES):
            acl = [Acl(31, "ip", f"10.{node}.{place >> 8}.{place & 255}/32") for place in range(_ENTRIES)]
            client.call(create(f"/n/{node}", acl=[*acl, *OPEN_ACL]))
        other.sync()
        checks = multi([check(f"/n/{number % _NODES}") for number in range(_CHECKS)])
        with ThreadPoolExecutor(1) as threads:
            checked = threads.submit(client.call, checks)
            answered = 0
            while not checked.done():
                assert other.read(f"/n/{answered % _NODES}")[0] == b""
                answered += 1
        assert len(checked.result()) == _CHECKS
        assert answered > 1
