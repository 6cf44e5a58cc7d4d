"""ZooKeeper's files: snapshots and transaction logs, read and written. No Spark in here, and no clock.

directory    which files of a data directory count: `survey`
snapshot     a snapshot's head, nodes and trailers, both ways
log          a transaction log's entries, and `transactions`, what they say
replay       what transactions make of a tree
digest       the tree's digest
compression  plain, gzip and snappy files behind one reader
text         Java's strings
errors       BadFile: what is wrong, in which file, at which byte
"""
