"""The data pipeline: move a ZooKeeper's tree onto etcd and back, and prove that nothing was lost.

formats/  ZooKeeper's files as bytes: snapshot, transaction log, seals, digests, compression. Pure.
table.py  the tables that all parts use: znodes, sessions, transactions; batches.py as Arrow (arrow.py).
numbers.py   the type of narrow columns.
job.py    what reads, writes and runs a job on a table's partitions.
sources/  what reads and writes these tables in partitions: files, etcd, Parquet; and Spark's formats of them.
live/     a running ensemble: walked over the wire, or asked for a snapshot.
etcd/     the tree in etcd: written as the pages of a snapshot, and read.
running/  the two ways to run a job on a table's partitions: in this process, or by Spark.
follow/   a tree in etcd that follows a ZooKeeper or another zketcd, and files that follow a tree in etcd.
traffic/  what clients wrote, from the logs.
jobs/     the commands: import, export, follow, lost, verify, inspect.
main.py      runs a command; spark.py makes its Spark session, progress.py shows how far it is.
options.py   the command lines of all of them; addresses.py how these name a tree.
folders.py   checks of directories before the work begins; buckets.py rows that do not fit into memory.
errors.py    errors with messages for the user.
"""
