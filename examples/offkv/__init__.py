"""The contract of liboffkv's interface over ZooKeeper, as a list that a server passes line by line.

liboffkv offers one interface over etcd, ZooKeeper and Consul. Its contract was read in its public README and
tests (github.com/offscale/liboffkv); the code is ours.

* `store` is the interface: what each operation asks of ZooKeeper, and what its answers mean.
* `conformance` is the list: each line uses one operation and says what must come out.
* `checking` runs the list on a server.
"""
