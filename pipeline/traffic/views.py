"""The queries of traffic, as SQL views. The same text runs on Spark and on SQLite.

Two tables have to exist: traffic_requests and traffic_operations (flat.py). Each view uses these.
"""

from typing import NamedTuple

REQUESTS = "traffic_requests"
OPERATIONS = "traffic_operations"


class View(NamedTuple):
    """A view."""

    name: str
    about: str  # for people
    order: str  # of its rows in a report
    sql: str


_PER_SECOND = "CAST(COUNT(*) AS DOUBLE) / (MAX(second) - MIN(second) + 1)"


def _count(condition: str) -> str:
    return f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)"


def _parts(change: str) -> str:
    return (
        f"COUNT(DISTINCT CASE WHEN clickhouse_change = '{change}' AND created = 1 THEN clickhouse_part END)"
    )


def _nodes(kind: str, change: str) -> str:
    return _count(f"clickhouse_kind = '{kind}' AND {change} = 1")


# Of a failed request, ZooKeeper's log has only the error code.
_PREFIX = "COALESCE(prefix, '(failed: its path is not in the log)')"

VIEWS = (
    View(
        "traffic_seconds",
        "Requests each second",
        "second",
        f"SELECT second, COUNT(*) AS requests, SUM(failed) AS failed, SUM(size) AS size FROM {REQUESTS}"
        " GROUP BY second",
    ),
    View(
        "traffic_results",
        "Operations by result",
        "operations DESC, operation, result",
        "SELECT operation, result, COUNT(*) AS operations, SUM(bytes) AS bytes"
        f" FROM {OPERATIONS} WHERE implied = 0 GROUP BY operation, result",
    ),
    View(
        "traffic_prefixes",
        "Writes by path prefix",
        "writes DESC, prefix",
        f"SELECT {_PREFIX} AS prefix, COUNT(*) AS writes, SUM(bytes) AS bytes, SUM(failed) AS failed,"
        f" COUNT(DISTINCT session) AS sessions FROM {OPERATIONS}"
        f" WHERE implied = 0 AND (prefix IS NOT NULL OR operation = 'error') GROUP BY {_PREFIX}",
    ),
    View(
        "traffic_writes",
        "Writes by path prefix and session",
        "writes DESC, prefix, session",
        "SELECT prefix, session, COUNT(*) AS writes, SUM(bytes) AS bytes, SUM(failed) AS failed"
        f" FROM {OPERATIONS} WHERE implied = 0 AND prefix IS NOT NULL GROUP BY prefix, session",
    ),
    View(
        "traffic_sessions",
        "Sessions by requests",
        "requests DESC, session",
        "SELECT session, MAX(identity) AS identity, COUNT(*) AS requests, SUM(bytes) AS bytes,"
        f" SUM(failed) AS failed FROM {REQUESTS} GROUP BY session",
    ),
    View(
        "traffic_clients",
        "Clients by address",
        "requests DESC, address",
        "SELECT address, COUNT(DISTINCT session) AS sessions, COUNT(*) AS requests, SUM(bytes) AS bytes,"
        f" SUM(failed) AS failed FROM {REQUESTS} WHERE address IS NOT NULL GROUP BY address",
    ),
    View(
        "traffic_directories",
        "Hot directories",
        "writes DESC, directory",
        "SELECT directory, COUNT(*) AS writes, SUM(created) AS created, SUM(deleted) AS deleted,"
        f" {_count('created = 0 AND deleted = 0 AND failed = 0')} AS changed,"
        f" SUM(bytes) AS bytes, SUM(failed) AS failed, COUNT(DISTINCT session) AS sessions FROM {OPERATIONS}"
        " WHERE directory IS NOT NULL GROUP BY directory",
    ),
    View(
        "traffic_multis",
        "Multis by size",
        "parts",
        "SELECT parts, COUNT(*) AS multis, SUM(bytes) AS bytes, SUM(size) AS size, SUM(failed) AS failed"
        f" FROM {REQUESTS} WHERE operation = 'multi' GROUP BY parts",
    ),
    View(
        "traffic_sequences",
        "Sequential creates by directory",
        "created DESC, stem",
        "SELECT stem, SUM(created) AS created, SUM(failed) AS failed,"
        f" MAX(second) - MIN(second) + 1 AS seconds, {_PER_SECOND} AS per_second,"
        f" SUM(ephemeral) AS ephemeral FROM {OPERATIONS} WHERE sequential = 1 GROUP BY stem",
    ),
    View(
        "traffic_flapping",
        "Ephemerals that come and go",
        "created DESC, path",
        "SELECT path, SUM(created) AS created, SUM(deleted) AS deleted, COUNT(DISTINCT session) AS sessions,"
        " CAST(MAX(time) - MIN(time) AS DOUBLE) / 1000 / (SUM(created) - 1) AS seconds_between"
        f" FROM {OPERATIONS} WHERE path IN (SELECT path FROM {OPERATIONS}"
        " WHERE created = 1 AND ephemeral = 1 AND sequential = 0 GROUP BY path HAVING COUNT(*) > 1)"
        " AND (created = 1 OR deleted = 1) GROUP BY path",
    ),
    View(
        "traffic_growth",
        "Growth by day",
        "day",
        f"SELECT day, {_count('created = 1')} AS created, {_count('deleted = 1')} AS deleted,"
        f" {_count('created = 1')} - {_count('deleted = 1')} AS nodes, SUM(bytes) AS bytes,"
        f" MAX(second) - MIN(second) + 1 AS seconds FROM {OPERATIONS} GROUP BY day",
    ),
    View(
        "traffic_clickhouse",
        "What ClickHouse's tables cost",
        "operations DESC, clickhouse_table",
        "SELECT clickhouse_table, COUNT(DISTINCT clickhouse_replica) AS replicas,"
        f" {_parts('insert')} AS inserts, {_parts('merge')} AS merges, {_parts('mutation')} AS mutations,"
        " COUNT(*) AS operations, COUNT(DISTINCT request) AS requests, SUM(bytes) AS bytes,"
        f" CAST(COUNT(DISTINCT request) AS DOUBLE) / NULLIF({_parts('insert')}, 0) AS requests_per_insert,"
        f" {_nodes('log', 'created')} AS log_entries,"
        f" {_nodes('queue', 'created')} AS queue_entries,"
        f" {_nodes('block', 'created')} AS blocks,"
        f" {_nodes('part', 'created')} AS parts_added,"
        f" {_nodes('part', 'deleted')} AS parts_removed"
        f" FROM {OPERATIONS} WHERE clickhouse_table IS NOT NULL GROUP BY clickhouse_table"
        " HAVING SUM(CASE WHEN clickhouse_kind IN ('part', 'queue', 'block', 'block number') THEN 1 ELSE 0"
        " END) > 0",
    ),
)
