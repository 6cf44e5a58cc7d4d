"""Following the log: from etcd's watch to items in the order in which they take effect.

`Follow` is used by each proxy (`proxy.log.log`), by the archiver (`archive.follower`), and by the observer of
torture (`proof.torture.observer`). What the items do is their consumer's business.

The order of entries. etcd does not keep the order of Txns that are in flight together: of three, one in five
overtook another. So the order is made here, by three rules. Every follower comes to the same order,
whatever it has missed and whenever it starts:

1. Entries take effect in the order of their positions (mod_revisions), except that those of one incarnation
   do so in the order of their numbers. One that arrives before its predecessor waits for it.
2. A number that is not above the last one of its incarnation is ignored. It is a late copy: a Txn without an
   answer is sent again, and after truncation its compare succeeds once more.
3. When the proxy key is gone, what waits behind a gap never counts: its sender sends it again, under other
   numbers. No entry can follow, since each append compares the proxy key.

What can be missed. A watch breaks, hangs, or leaves something out, and all that must be found:

4. After a break, everything above what was delivered is read, at one revision, together with the proxy keys
   and the record (`catch_up`). So a break costs a read, however long it was, unless truncation was faster.
5. The watch begins with a revision that was processed before. etcd before 3.4.36 and 3.5.18 omits deletions
   at the very revision with which a watch begins, if it was compacted there (issues 18089, 19179).
6. A keep-alive that is answered says nothing about the watch. So each second a linearizable read asks what is
   new (`staleness`). What it finds, the watch has to show within tenths of a second (`watch_guard`); what it
   finds below the revision that the watch has passed was left out (issue 17529), and the state is wrong.
7. No answer may be older than one before it, or entries would seem to be missing (issue 20418).
8. A tree with another cluster id, or an older revision than was seen, was restored from a backup: what
   clients have seen may be undone, and the consumer gets to know that (`Consumer.replace`).

In which order to read:

follower     the order: events in, items out. Pure. tests/proxy/log/follower.txt has it as a script
follow       the watch, and what is done after a break
catch_up     what is read after a break, and at a start
staleness    whether clients may see the state: it has to be right, and recent
watch_guard  whether the watch hangs
"""
