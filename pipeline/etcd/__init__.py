"""The etcd side of the pipeline: a tree as the pages of one snapshot, written under a fence, and read.

columns.py   rows in Arrow <-> pages of znodes, column by column. Pure.
paths.py     whether the paths of all rows make one tree. Pure.
storable.py  which znodes zketcd can store. Pure.
record.py    the tree's record, which says whether the tree can be read.
sessions.py  sessions of a ZooKeeper, whose passwords derive from their ids. Pure.
limits.py    puts packed into Txns that etcd accepts by default. Pure.
requests.py  requests that are sent again until their outcome is known.
load.py      the load: begin (unserved), numbers for pages, close_writes, finish (served).
writer.py    one task's part of a load.
publish.py   the end of a load: all parts become one tree with its sessions, or are refused.
read.py      pages and sessions of a snapshot, and whether the log has entries after it.
tree.py      the tree as of one revision: a snapshot, and the replay of the log after it.
log.py       the log as a stream: marks in it, and the entries between two of them.
replayed.py  the outcomes of the requests between two marks.
options.py   how to reach etcd, from a command line or Spark's options.
reach.py     whether etcd can be reached, before a command begins.
seen.py      the highest zxid that clients of a tree may have seen.
"""
