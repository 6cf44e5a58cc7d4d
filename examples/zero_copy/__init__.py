"""S3 zero-copy replication, as ClickHouse coordinates it: replicas share the data of parts, and mark them.

`python -m examples.zero_copy` simulates servers in one process that insert, fetch, merge and drop parts. The
data of all parts lie in one bucket. Who takes away the last mark of a part's data deletes them, once.

* `bucket`: the shared storage, which knows what must not happen to it. Pure.
* `paths`: nodes and entries. Pure.
* `marks`: how a replica marks data, and deletes data without marks.
* `host`: a replica: what it has, and the log of parts that it follows.
* `run`: the load, the end, the last checks.
"""
