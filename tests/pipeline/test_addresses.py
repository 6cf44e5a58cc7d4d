"""Names of trees in etcd."""

import pytest

from pipeline.addresses import etcd_and_prefix, is_in_etcd
from tests.table import one_by_one


@one_by_one(
    ("url", "endpoints", "prefix"),
    [
        ("etcd://a:1/zketcd", "http://a:1", "/zketcd"),
        ("etcds://a:1,b:2/zketcd/", "https://a:1,https://b:2", "/zketcd"),
        ("etcd://[::1]:2379/a/b", "http://[::1]:2379", "/a/b"),
        ("etcd://a:1?prefix=zketcd", "http://a:1", "zketcd"),
        ("etcd://a:1/?prefix=zketcd/b", "http://a:1", "zketcd/b"),
        ("etcds://a:1,b:2?prefix=/zketcd", "https://a:1,https://b:2", "/zketcd"),
        ("etcd://a:1?prefix=a?b", "http://a:1", "a?b"),
        ("etcd://a:1/a?prefix=b", "http://a:1", "/a?prefix=b"),
    ],
)
def test_a_prefix_may_begin_with_a_slash_or_not(url: str, endpoints: str, prefix: str) -> None:
    assert is_in_etcd(url)
    assert etcd_and_prefix(url) == (endpoints, prefix)


@one_by_one("url", ["etcd://", "etcd://a:1", "etcd://a:1/", "etcd:///zketcd", "etcd://a:1?zketcd"])
def test_a_name_without_hosts_or_prefix(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not etcd://HOST:PORT/PREFIX, nor etcd://HOST:PORT\?prefix="):
        etcd_and_prefix(url)


@pytest.mark.parametrize(
    "url", ["etcd://root:hunter2@a:1/zketcd", "etcds://root:hunter2@a", "etcd://b,r:hunter2@a:1?prefix=a"]
)
def test_a_password_in_a_name_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="--etcd-password, not a user and password in a URL") as refused:
        etcd_and_prefix(url)
    assert "hunter2" not in str(refused.value)
