"""Loading: from what is in etcd to a state in memory. A starting proxy loads its tree, one that fell behind
loads it again, and the snapshot writer, the commands and the pipeline load it to read it.

A load reads a snapshot, then the entries of the log that the snapshot does not hold. The rules:

* Nothing in etcd stands still meanwhile. Pages never change, so they are read by name. Entries are read at
  different revisions, and what came later is left to the watch (`Loaded.caught`). If truncation has taken
  something that was to be read, the load begins again with the newer snapshot.
* A state is right if its digest is. A snapshot is compared with the digest in the record, and the entries
  name those of their senders. They are not trusted: a digest that differs is reported with the result.
* A snapshot with a missing or damaged page is not the end. The one before it is kept with the log since
  then; what they make together has to come to the digest of the snapshot that is lost.
* Without a snapshot the log begins with an empty tree. Only for a tree that was not imported is that true:
  so this state, too, is compared with a snapshot, if one is named.
* A tree with rules that this release does not know (its level) is not served. An entry raises the level, so
  the replay may find this out, and not only the record.
* A copy may be loaded, but is only read before the cut-over. `zketcd follow` may write a snapshot in place
  of an entry: only what follows the newest snapshot can be caught up with.

In which order to read:

pages   reads a snapshot: the pages by name, several at a time
replay  applies entries to a state that no client reads yet
start   the load: which snapshot, then which entries, and what the result is compared with
"""
