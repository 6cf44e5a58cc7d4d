"""How a ZooKeeper tree is laid out in etcd: paths, keys and values.

Pure functions over strings and bytes. No I/O, no time, nothing of the proxy. `README.md` beside this
file is the contract that every release has to keep reading.
"""
