"""The archive: every change of a tree, kept outside etcd, and what is done with it.

    etcd's log -> archiver -> segments and snapshots in a store -> a state at any moment, a history of a node

archive   the files of one tree in a directory or an object store
run       a part of the archive without a gap: a snapshot, and all entries since it. Another run begins where
          entries were lost (truncated before they were archived) or where etcd was restored from a backup
segment   entries in the order in which they took effect, and what each of their requests has changed
snapshot  the pages of one of zketcd's snapshots in etcd, in one file
index     which paths a segment changes: a Bloom filter, so that a history does not read all segments
point     a place between two entries: how many entries, etcd's revision, zxid, the largest clock so far
moment    a point that a user asks for, by time, zxid or position

The rooms, each above those that it imports:

past      what an archive tells
archiver  follows the log, and writes
files     their names, content and place. All but `store` and `small_files` is pure

`main` has the commands, `options` their command lines. `writing` writes, as a client, what `past.revert` has
planned.

docs/archive.md is for operators; docs/decisions/0031-the-archive.md says why it is made like this.
"""
