"""A tree in etcd that follows a ZooKeeper or another zketcd, and ZooKeeper's files that follow a zketcd.

In, from a ZooKeeper (`zketcd follow`):
tail      reads the transaction log of a member as it grows, exactly once and in order
base      the tree of a data directory, as the state machine holds it
applying  applies transactions to that state (`ends`: what ends in it), and says what they changed (`changed`)
target    the etcd side: the fence, entries, new bases, the position, the cut-over
finishing how a command asks a running follower for the cut-over
inward    the loop between tail and target
checking  compares the tree in etcd with its source while both change

From another zketcd, into the same target:
source    its entries, as they take effect: `from_etcd`, `from_archive`
copy      the state of the target, which shares the znodes with the source's
copying   the loop between them, up to the move of the clients
vouching  signs of life, for proxies of the source that need them
lost      what is done when the source is lost, and when it is back

Back (`zketcd export --follow`):
recording the state machine's changes, request by request, as ZooKeeper's transactions. Pure.
files     snapshots and logs in a data directory, written so that ZooKeeper loads them at any time
outward   the loop between zketcd's log and the files

All: `options`, output (what they print), `retrying` (wait while etcd is out of reach).
"""
