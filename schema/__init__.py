"""What zketcd keeps in etcd, schema version 2: keys, entries of the log, snapshot pages, the tree's record.

Pure functions over strings and bytes. No I/O, no time, nothing of the proxy. `README.md` in this directory
is the contract that every release has to keep reading.

keys               the keys, all under one prefix
record             the tree's record, and the value of a living proxy
entry              an entry of the log
budgets, followed  the bodies of two kinds of requests in it
pages              the pages of a snapshot
pieces             a page that etcd does not take as one value
znode              the fields of a znode
fixed              the nodes that every ZooKeeper has from the start
compression        the envelope of entries and pages, with a checksum
json_values        JSON with a checksum
text               texts inside binary values
paths, zxids       what a valid path is, and the parts of a zxid
errors             what reading can raise
"""
