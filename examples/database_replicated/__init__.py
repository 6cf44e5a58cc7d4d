"""ClickHouse's engine DatabaseReplicated: the DDL of a whole database goes through a log in ZooKeeper.

Every replica proposes queries and applies all of them in the log's order. What ClickHouse asks of ZooKeeper
is known from its public sources: DatabaseReplicated, DatabaseReplicatedWorker, DDLWorker, DDLTask.

* `ddl` is the database: queries, tables, their digest. Pure.
* `layout` has the paths, and the transactions as lists of requests. Pure.
* `ledger` notes what all replicas did and saw, and decides whether the invariants hold. Pure.
* `replica` is one simulated host: a session, the worker that follows the log, the proposer, the cleaner.
* `run` is one run: calm and timed, then with lost replicas, then the comparison of everything at its end.
"""
