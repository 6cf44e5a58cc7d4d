"""S3 zero-copy replication, as ClickHouse coordinates it: replicas share the data of parts, and mark them.

Servers in one process insert, fetch, move, merge and drop parts. Replicas of one bucket share a part's data.
Who takes away the last mark deletes the data, once.

* `storage`: the buckets, and the invariants of what lies there. Pure.
* `paths`: nodes and entries. Pure.
* `surroundings`: the servers, and how hosts hold their sessions.
* `steps`: requests and time for each kind of step.
* `member`: a host whose sessions are fenced.
* `marks`: how a replica marks data, and deletes data without marks.
* `host`: a replica: what it has, and the log of parts that it follows.
* `observer`: makes the table, waits until all is done, and looks at it in the end.
* `run`: one run, from the first session to the last check.
"""
