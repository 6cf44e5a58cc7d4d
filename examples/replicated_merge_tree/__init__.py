"""Replicated tables and distributed DDL, as ClickHouse's servers do them in ZooKeeper.

`python -m examples.replicated_merge_tree` simulates servers in one process. Each has a session and does to
ZooKeeper what ClickHouse does: for an insert, a fetch, a merge, a mutation, a DROP PARTITION, and ON CLUSTER
queries. Data stay in memory; what ZooKeeper must guarantee for them is checked by the judge.

* `parts`, `entries`, `paths`: names and formats. Pure.
* `queue`, `disk`, `selection`: a replica's logic. Pure.
* `judge`: the invariants. Pure.
* `host`: a server with its session, and what it does when it loses it.
* `inserts`, `replication`, `leadership`, `changes`, `ddl`: what goes over the wire.
* `run`: the load, the end, the last checks.
"""
