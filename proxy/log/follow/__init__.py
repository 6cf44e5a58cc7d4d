"""Following the log: from etcd's watch to items in the order in which they take effect.

`LogFollower` is used by each proxy (`proxy.log.log`), by the archiver (`archive.archiver.archiver`), by
`zketcd follow` (`pipeline.follow.from_etcd`), and by the observer of torture (`proof.torture.observer`). What
the items do is their consumer's business. "The follower" alone is the process `zketcd follow`, here too.

The order of entries is made here, by rules 1.2 to 1.5 and 2.8 of docs/architecture.md. Each of them comes
to the same order, whatever it has missed and whenever it starts.

What can be missed. A watch breaks, hangs, or leaves something out, and all that must be found:

* After a break, everything above what was delivered is read, with the proxy keys and the record
  (`read_missed`). So a break costs a read, however long it was, unless truncation was faster.
* The watch begins with a revision that was processed before. etcd before 3.4.36 and 3.5.18 omits deletions
  at the very revision with which a watch begins, if it was compacted there (issues 18089, 19179).
* A keep-alive that is answered says nothing about the watch. So each second a linearizable read asks what is
  new (`staleness`). What it finds, the watch has to show within tenths of a second (`watch_guard`); what it
  finds below the revision that the watch has passed was left out (issue 17529), and the state is wrong.
* No answer may be older than one before it, or entries would seem to be missing (issue 20418).
* A tree with another cluster id, or an older revision than was seen, was restored from a backup: what
  clients have seen may be undone, and the consumer gets to know that (`Successor.replace`).
* A copy may be written anew, as a snapshot instead of entries. So the state is compared with each snapshot
  that its record names, at the place in the stream where it is named.

In which order to read:

log_order      the order: events in, items out. Pure. tests/proxy/log/log_order.txt has it as a script
log_follower   the watch, and what is done after a break
catch_up       what is read after a break, and at a start
copy_lag       how far a copy is behind its source
seen_record    the record: whether the tree can still be served, and is a copy of another one
question       what etcd has that is not applied, and whether the watch has delivered it since. Pure
staleness      whether clients may see the state: it has to be right, and recent
standby_signs  whether the follower of a copy lives, if clients may not be served without it
watch_guard    whether the watch hangs
"""
