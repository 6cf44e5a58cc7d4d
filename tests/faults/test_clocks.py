"""The clock of one host is an hour ahead, or behind."""

import time
from contextlib import ExitStack

import pytest

from lab.client import blocking as zk
from lab.client.blocking import EPHEMERAL, Client
from lab.client.requests import create_container, create_ttl
from lab.servers import EtcdServer, free_port, wait_until
from lab.servers.operator import metric
from lab.servers.prepared import prepared, wrong_clock
from tests.faults.test_reaping import with_child

pytestmark = pytest.mark.real

_HOUR = 3600
_TTL_S = 2.0
_INTERVAL_MS = 200
#: Seconds that a deletion may be late, on a busy machine. With the wrong clock it would be an hour.
_LATE_S = 25.0


@pytest.mark.parametrize(("hours", "eldest"), [(1, True), (-1, True), (1, False)])
def test_nodes_and_sessions_end_on_time(
    etcd_server: EtcdServer, etcd_prefix: str, hours: int, eldest: bool
) -> None:
    admin = free_port()
    wrong, right = wrong_clock(hours * _HOUR), ""
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                prepared(
                    prelude,
                    etcd_server,
                    prefix=etcd_prefix,
                    container_check_interval=_INTERVAL_MS,
                    admin_listen=f"127.0.0.1:{admin}" if prelude == right else "none",
                )
            )
            for prelude in ((wrong, right) if eldest else (right, wrong))
        )
        skewed, exact = (first, second) if eldest else (second, first)
        clients = {
            "skewed": stack.enter_context(Client(skewed.port)),
            "exact": stack.enter_context(Client(exact.port)),
        }
        observer = stack.enter_context(Client(exact.port))
        made: dict[str, float] = {}
        for name, client in clients.items():
            made[f"/ttl-{name}"] = time.monotonic()
            client.call(create_ttl(f"/ttl-{name}", int(1000 * _TTL_S)))
            client.call(create_ttl(f"/long-{name}", 1000 * _HOUR // 2))
            client.transact(with_child(create_container(f"/c-{name}"), f"/c-{name}"))
            client.call(create_container(f"/unused-{name}"))
            client.create(f"/e-{name}", mode=EPHEMERAL)
        # Written at the other proxy, whose clock is another one: its whole TTL begins anew.
        clients["exact"].call(create_ttl("/touched", int(1000 * _TTL_S)))
        clients["skewed"].sync()
        made["/touched"] = time.monotonic()
        clients["skewed"].write("/touched", b"x")
        now = 1000 * time.time()
        for name, shift in (("exact", 0), ("skewed", 1000 * _HOUR * hours)):
            stat = observer.stat(f"/e-{name}")
            assert stat is not None
            # As in ZooKeeper, where it is the leader's: that of the host that the request came to.
            assert abs(stat.ctime - (now + shift)) < 60_000
        observer.sync()
        gone: dict[str, float] = {}

        def look() -> bool:
            for path in made:
                if path not in gone and observer.stat(path) is None:
                    gone[path] = time.monotonic() - made[path]
            return len(gone) == len(made)

        wait_until(look, "the TTL nodes gone")
        for path, age in gone.items():
            assert _TTL_S - 0.05 <= age < _TTL_S + _LATE_S, f"{path} was deleted after {age:.2f} s"
        for name, client in clients.items():
            client.call(zk.delete(f"/c-{name}/x"))
        wait_until(
            lambda: not any(name.startswith("c-") for name in observer.children("/")[0]), "containers gone"
        )
        kept = {f"{kind}-{name}" for kind in ("long", "unused", "e") for name in clients}
        assert observer.children("/")[0] == kept | {"zookeeper"}
        assert abs(abs(metric(admin, "zketcd_clock_skew_seconds")) - _HOUR) < 60
