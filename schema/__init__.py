"""What zketcd keeps in etcd, schema version 2: keys, entries of the log, snapshot pages, the tree's record.

Pure functions over strings and bytes. No I/O, no time, nothing of the proxy. `README.md` in this directory
is the contract that every release has to keep reading.
"""
