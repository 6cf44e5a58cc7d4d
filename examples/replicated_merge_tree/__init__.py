"""Replicated tables and distributed DDL, as ClickHouse's servers do them in ZooKeeper.

`python -m examples.replicated_merge_tree` simulates servers in one process. Each has a session and does to
ZooKeeper what ClickHouse does: for an insert, a fetch, a merge, a mutation, a DROP PARTITION, ON CLUSTER
queries, a part that is lost, a replica that is lost. Data stay in memory; what ZooKeeper must guarantee for
them is checked by the judges.

* `parts`, `entries`, `paths`: names and formats. Pure.
* `queue`, `disk`, `selection`: a replica's logic. Pure.
* `judge`, `ddl_judge`: the invariants of a table, and of distributed DDL. Pure.
* `world`: what all hosts share. `replica`: a table on one host. `host`: a server, its session and replicas.
* `inserts`, `quorum`, `replication`, `leadership`, `changes`, `ddl`: what goes over the wire.
* `recovery`, `part_check`: the same for replicas and parts that are lost.
* `load`, `losses`: what users do, and what happens to the hosts.
* `run`, `observer`: one run, and the last checks.
"""
