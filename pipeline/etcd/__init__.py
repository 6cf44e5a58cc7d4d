"""The etcd side of the pipeline: znodes as keys and values, the guarded load, reading in key ranges.

records.py   a row of the znodes' table <-> etcd's keys and values, through schema/. Pure.
passwords.py the password that ZooKeeper derives from a session's id. Pure.
limits.py    puts packed into Txns that a stock etcd takes. Pure.
load.py      the load: begin (unserved), write, finish (served). Over proxy.etcd.interface.
sessions.py  sessions that come over as leases.
ranges.py    how the keys of a prefix are cut into partitions.
read.py      the rows of one partition, and the sessions, as of one revision.
options.py   how to reach etcd, from a command line or Spark's options.
"""
