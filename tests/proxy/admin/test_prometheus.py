"""What a scrape costs, and that its histograms are what Prometheus expects of them."""

from typing import Any, NoReturn
from unittest import mock

from prometheus_client.parser import text_string_to_metric_families

from codec.constants import OpCode
from proxy.admin.prometheus import Exposition
from proxy.server import Server
from proxy.tree import Tree
from tests.fakes.etcd import FakeEtcd
from tests.proxy.test_server import serving

MS = 1_000_000


def _samples(server: Server) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(Exposition(server.facts).text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def test_histograms_are_cumulative_and_in_seconds() -> None:
    async with serving(FakeEtcd()) as server:
        histogram = server.latency.by_opcode[OpCode.EXISTS]
        histogram.note(3 * MS, 2)
        histogram.note(40 * MS)
        histogram.note(100_000 * MS)
        samples = _samples(server)
    buckets = [
        (float(labels["le"]), value)
        for labels, value in samples["zketcd_request_seconds_bucket"]
        if labels["operation"] == "exists"
    ]
    assert buckets == sorted(buckets)
    assert str(buckets[-1]) == "(inf, 4.0)"
    assert next(value for end, value in buckets if end > 0.003) == 2
    assert next(value for end, value in buckets if end > 0.040) == 3
    sums = {labels["operation"]: value for labels, value in samples["zketcd_request_seconds_sum"]}
    assert sums["exists"] == 100.046


async def test_batches_are_counted_by_their_size() -> None:
    async with serving(FakeEtcd()) as server:
        sizes = server.committer.batch_sizes
        before = sizes.count
        for size in (1, 2, 3, 4, 100):
            sizes.note(size)
        samples = _samples(server)
    found = {labels["le"]: value - before for labels, value in samples["zketcd_batch_requests_bucket"]}
    assert (found["3"], found["7"], found["127"], found["+Inf"]) == (3, 4, 5, 5)


def _walked(*_: object) -> NoReturn:
    raise AssertionError("a scrape walks the tree")


class _CountingDict(dict[str, Any]):
    """Can be counted and asked for one node, but not gone through."""

    __iter__ = items = values = keys = _walked


async def test_a_scrape_does_not_walk_the_tree() -> None:
    async with serving(FakeEtcd()) as server:
        nodes = server.mirror.tree.nodes
        with mock.patch.object(server.mirror, "tree", Tree()) as tree:
            tree.nodes = _CountingDict(nodes)
            samples = _samples(server)
    assert samples["znode_count"] == [({}, len(nodes) + 1)]
