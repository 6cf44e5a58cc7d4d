"""Upkeep: what one of the living proxies does for all of them. Snapshots, truncation, due nodes.

The rules:

* Who does it needs no election. The revisions at which their keys were put give the living proxies an order,
  and the eldest does the work. When it dies its key goes, and all others see that in the stream.
* Two that do the same work at once do no harm: each step is conditional. A snapshot is published by a Txn
  that compares the record, a due node is deleted only if it has not changed.
* The eldest may fail at it and still live, for want of memory or disk. So the next one writes a snapshot
  that is due half a minute later, and the one after that a minute later.
* A snapshot is written by a child process, which loads the tree as a starting proxy does. So the proxy has
  no pause, and each snapshot proves that the tree can be loaded, and that the digests are right.
* A crash between any two steps leaves a tree that can be used. The order is: the state page, the other
  pages, the record that names them, truncation. What is left over, the next writer deletes.
* Truncation deletes what the *previous* snapshot holds, not the current one (rule 5.2). Deletions go
  in chunks, since one of 200,000 keys stops all appends for more than a second.
* An incarnation is forgotten when nothing of it can return: its key is gone, no session is attached to it,
  its entries are truncated. Only then is a late copy of its entry impossible.
* What gives space back has to work in a full etcd: pages and the record are put by a Txn within the Txn,
  which etcd does not count against its quota, and deletions always pass.

In which order to read:

snapshots        when a snapshot is written, and by which proxy
deleted_entries  a snapshot that saves what somebody has deleted from the log
turn             one tree at a time writes a snapshot to an etcd that is nearly full
snapshot_job     what that proxy and the writer say to each other
snapshot_writer  writes it: a process of its own
truncation       deletes what no start needs any more
node_expiry      deletes containers and TTL nodes that are due
"""
