"""The replicated database: queries, the tables that they make, and the tables' digest. Pure.

A table's definition is a chain of hashes over the queries that made it: two replicas that applied the same
queries in another order differ.
"""

import hashlib
import random
from collections.abc import Mapping
from typing import NamedTuple

CREATE, ALTER, DROP, RENAME = "CREATE", "ALTER", "DROP", "RENAME"
#: How many names of tables there are.
NAMES = 64

Tables = Mapping[str, str]
"""Name -> definition."""


class Query(NamedTuple):
    """One DDL query; each query has another `id`."""

    id: str
    kind: str
    table: str
    target: str = ""
    """The new name, of a RENAME."""


def text_of(query: Query) -> bytes:
    """A query as the log has it."""
    return " ".join(filter(None, query)).encode()


def query_of(text: bytes) -> Query:
    """The query that the log has. Raises ValueError."""
    words = text.decode().split(" ")
    if len(words) != (4 if words[1:2] == [RENAME] else 3) or words[1] not in (CREATE, ALTER, DROP, RENAME):
        raise ValueError(f"{text!r} is no query")
    return Query(*words)


def changes(tables: Tables, query: Query) -> dict[str, str | None] | None:
    """What a query changes: name -> new definition, None for a table that goes. None if the query fails."""
    present = tables.get(query.table)
    if (present is None) != (query.kind == CREATE):
        return None
    chained = hashlib.sha256(f"{present} {query.id}".encode()).hexdigest()[:32]
    if query.kind == DROP:
        return {query.table: None}
    if query.kind == RENAME:
        return None if query.target in tables else {query.table: None, query.target: chained}
    return {query.table: chained}


def changed(tables: Tables, changes: Mapping[str, str | None]) -> dict[str, str]:
    """The tables after changes."""
    after = {**tables, **changes}
    return {name: definition for name, definition in after.items() if definition is not None}


def digest(tables: Tables) -> str:
    """A sum of hashes, one of each table, as ClickHouse's: independent of the tables' order."""
    hashes = (hashlib.sha256(f"{name} {text}".encode()).digest()[:8] for name, text in tables.items())
    return str(sum(map(int.from_bytes, hashes)) % (1 << 64))


def some_query(chance: random.Random, tables: Tables, identity: str) -> Query:
    """A query that mostly succeeds if no other comes before it."""
    name = f"t{chance.randrange(NAMES)}"
    if name not in tables:
        return Query(identity, CREATE, name)
    draw = chance.random()
    if draw < 0.1:
        return Query(identity, DROP, name)
    if draw < 0.2:
        return Query(identity, RENAME, name, f"t{chance.randrange(NAMES)}")
    if draw < 0.23:
        return Query(identity, CREATE, name)  # fails, and must leave no trace
    return Query(identity, ALTER, name)
