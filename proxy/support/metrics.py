"""Metrics that other programs have too: a proxy shows them on /metrics, they write them to a file. Pure."""

from typing import NamedTuple

from schema.followed import Lag


class PlainMetric(NamedTuple):
    """One without labels."""

    name: str
    kind: str  # gauge, counter
    help: str
    value: float


def of_copy(zxid: int, lag: Lag | None) -> list[PlainMetric]:
    """Of a tree or directory that follows another one."""
    found = [PlainMetric("zketcd_copy_zxid", "gauge", "the last transaction that the copy holds", zxid)]
    if lag is not None:
        found += [
            PlainMetric(
                "zketcd_copy_level_timestamp_seconds",
                "gauge",
                "Unix time at which the copy was last level with its source, as its follower says",
                lag.level_ms / 1000,
            ),
            PlainMetric(
                "zketcd_copy_behind",
                "gauge",
                "transactions or requests that the source is known to have and the copy has not",
                lag.behind,
            ),
        ]
    return found
