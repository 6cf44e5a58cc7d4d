"""Records what Prometheus would scrape in real incidents, into tests/deploy/recorded.

Run from the root: `python -m tests.deploy.record [INCIDENT...]`, a quarter of an hour for all, on an idle
machine. Three members of etcd and two proxies run, with a client that writes. Record again when a rule reads
another metric, or an incident changes.
"""

import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from kazoo.client import KazooClient
from prometheus_client.parser import text_string_to_metric_families

from lab.servers import ZketcdServer, free_port
from lab.servers.clusters import Member, running_cluster
from lab.servers.operator import etcdctl
from tests.deploy.series import EVERY, MEMBERS, PROXIES, Sample, notation, of_rules, recording
from tests.kazoo import kazoo

_HEALTHY = 60  # seconds before an incident
_TIMEOUT = 10.0  # of a scrape, as Prometheus's own


class World(NamedTuple):
    """What an incident happens to."""

    proxies: list[ZketcdServer]
    members: list[Member]
    targets: Mapping[str, str]  # the URL of each one's metrics
    client: KazooClient


class Incident(NamedTuple):
    """What happens, by the seconds since the incident began."""

    actions: Mapping[int, Callable[[World], object]]
    lasts: int


def _crash(world: World) -> None:
    """A supervisor starts it again at once."""
    world.proxies[0].kill()
    world.proxies[0].launch()


def _fill(world: World) -> None:
    """Another program fills etcd."""
    member = world.members[0]
    with suppress(RuntimeError):
        while "NOSPACE" not in etcdctl(member, "alarm", "list"):
            etcdctl(member, "put", "/another", given="a" * 1_000_000)


INCIDENTS = {
    "a proxy crashes every 45 s": Incident(dict.fromkeys(range(0, 226, 45), _crash), 270),
    "a proxy is killed and comes back": Incident({0: _crash}, 120),
    "a proxy is killed and stays away": Incident({0: lambda world: world.proxies[0].kill()}, 120),
    "a member of etcd is down": Incident({0: lambda world: world.members[0].kill()}, 120),
    "etcd is full": Incident({0: _fill}, 120),
}


@contextmanager
def _world() -> Iterator[World]:
    with running_cluster("--quota-backend-bytes=33554432") as cluster, ExitStack() as stack:
        ports = [free_port() for _ in PROXIES[:2]]
        proxies = [
            stack.enter_context(
                ZketcdServer(cluster.endpoints, admin_listen=f"127.0.0.1:{port}", start_timeout=240)
            )
            for port in ports
        ]
        targets = {
            name: f"http://127.0.0.1:{port}/metrics" for name, port in zip(PROXIES, ports, strict=False)
        }
        targets |= {
            name: f"{member.endpoint}/metrics" for name, member in zip(MEMBERS, cluster.members, strict=True)
        }
        client = stack.enter_context(kazoo(*proxies))
        client.ensure_path("/load")
        yield World(proxies, list(cluster.members), targets, client)


def _scraped(instance: str, url: str, wanted: set[str]) -> dict[Sample, float]:
    """What one target says; that it is down, if it says nothing."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            page = answer.read().decode()
    except OSError:
        return {Sample("up", instance): 0}
    found = {Sample("up", instance): 1.0}
    for family in text_string_to_metric_families(page):
        for each in family.samples:
            if each.name in wanted and each.labels.get("method", "Txn") == "Txn":
                labels = {name: "a-host" if name == "host" else said for name, said in each.labels.items()}
                found[Sample(each.name, instance, frozenset(labels.items()))] = each.value
    return found


def _record(incident: Incident) -> str:
    """The series of an incident, each a line."""
    wanted = of_rules()
    rounds: list[dict[Sample, float]] = []
    actions = {_HEALTHY + at: action for at, action in incident.actions.items()}
    with _world() as world:
        began = time.monotonic()
        for at in range(0, _HEALTHY + incident.lasts + 1, EVERY):
            time.sleep(max(0.0, began + at - time.monotonic()))
            if at in actions:
                actions[at](world)
            with suppress(Exception):  # the client may have no connection
                world.client.set_async("/load", b"x")
            found: dict[Sample, float] = {}
            for instance, url in world.targets.items():
                found |= _scraped(instance, url, wanted)
            rounds.append(found)
    series: dict[Sample, list[float | None]] = defaultdict(lambda: [None] * len(rounds))
    for number, found in enumerate(rounds):
        for sample, value in found.items():
            series[sample][number] = value
    return "".join(sorted(f"{sample}\t{notation(values)}\n" for sample, values in series.items()))


def main() -> None:
    """Record."""
    for name in sys.argv[1:] or INCIDENTS:
        recording(name).parent.mkdir(exist_ok=True)
        recording(name).write_text(_record(INCIDENTS[name]))
        print(name, flush=True)


if __name__ == "__main__":
    main()
