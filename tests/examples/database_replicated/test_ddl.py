"""The simulated database."""

import random

from examples.database_replicated import ddl
from examples.database_replicated.ddl import ALTER, CREATE, DROP, RENAME, Query


def _after(*queries: Query) -> dict[str, str]:
    tables: dict[str, str] = {}
    for query in queries:
        made = ddl.changes(tables, query)
        assert made is not None
        tables = ddl.changed(tables, made)
    return tables


def test_the_order_shows_in_the_digest_and_that_of_the_names_does_not() -> None:
    made, one, two = Query("1", CREATE, "a"), Query("2", ALTER, "a"), Query("3", ALTER, "a")
    assert ddl.digest(_after(made, one, two)) != ddl.digest(_after(made, two, one))
    assert ddl.digest({"a": "1", "b": "2"}) == ddl.digest({"b": "2", "a": "1"})
    assert ddl.digest({"a": "1", "b": "2"}) != ddl.digest({"a": "2", "b": "1"})


def test_queries_as_the_log_has_them() -> None:
    chance = random.Random(1)
    tables: dict[str, str] = {}
    kinds, failed = set(), 0
    for number in range(2000):
        query = ddl.some_query(chance, tables, f"r00-{number}")
        assert ddl.query_of(ddl.text_of(query)) == query
        kinds.add(query.kind)
        made = ddl.changes(tables, query)
        failed += made is None
        tables = ddl.changed(tables, made or {})
    assert kinds == {CREATE, ALTER, DROP, RENAME}
    assert 0 < failed < 500
