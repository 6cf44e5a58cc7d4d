"""What a large cluster of ClickHouse asks of ZooKeeper: inserts that all replicas copy, ON CLUSTER queries.

`python -m examples.replicated_merge_tree` simulates servers in one process, each with a session of its own.
It is the smallest model that has their number. Quorums, merges, mutations, drops and lost replicas are tested
with real ClickHouse servers (tests/clients/test_clickhouse.py), of which two fit on a machine.

* `table`: names, formats and the invariants. Pure.
* `replica`: a table on one host: inserts, the copy of the log, fetches.
* `host`: a server, its session, and its part in distributed DDL.
* `run`: the load, the end, the last checks.
"""
