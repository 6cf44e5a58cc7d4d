"""What zketcd can hold, and the kinds of nodes."""

from pipeline.etcd.records import kind_of, obstacle_to


def test_kinds_of_nodes() -> None:
    assert kind_of(0) == "persistent"
    assert kind_of(0x100000000000001) == "ephemeral"
    assert kind_of(-(1 << 63)) == "container"
    assert kind_of(-(1 << 56) + 5000) == "ttl"


def test_what_cannot_be_held() -> None:
    assert obstacle_to("/a", 1_000_000) is None
    assert "exceed" in str(obstacle_to("/a", 1536 * 1024))
    assert "exceed" in str(obstacle_to("/a", 1_000_000, 600_000))
    assert obstacle_to("/a", 1536 * 1024, max_request_bytes=10_000_000) is None
    assert "path" in str(obstacle_to("/a//b", 0))
    assert "path" in str(obstacle_to("a", 0))
