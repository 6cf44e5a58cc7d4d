"""The data pipeline: move a ZooKeeper's tree onto etcd and back on Spark, and prove that nothing was lost.

formats/  ZooKeeper's files as bytes: snapshot, transaction log, seals, digests, compression. Pure.
table.py  the tables that everything meets in: znodes, sessions, transactions.
sources/  Spark data sources and sinks: "zookeeper" (files), "zketcd" (an etcd prefix).
jobs/     what `python -m pipeline` does: import, export, verify, inspect.
etcd/     the tree in etcd: written as the pages of a snapshot, and read.
"""
