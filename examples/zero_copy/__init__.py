"""S3 zero-copy replication, as ClickHouse coordinates it: replicas share the data of parts, and mark them.

`python -m examples.zero_copy` simulates servers in one process that insert, fetch, move, merge and drop
parts. Replicas of one bucket share a part's data. Who takes away the last mark deletes the data, once.

* `storage`: the buckets, which know what must not happen to them. Pure.
* `paths`: nodes and entries. Pure.
* `marks`: how a replica marks data, and deletes data without marks.
* `host`: a replica: what it has, and the log of parts that it follows.
* `run`: the load, the end, the last checks.
"""
