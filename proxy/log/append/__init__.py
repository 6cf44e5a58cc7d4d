"""Appending to the log: from the requests of this proxy to entries in etcd, each exactly once.

An append is one Txn: compare that the proxy key is there with its create_revision, compare that the entry's
key is absent, put the entry. The rules:

1. The first request goes out at once. What arrives while Txns are in flight goes into the next entry.
   How many Txns are in flight depends on the round trip: near by, more than two only make proxy and etcd
   wait for each other; 20 ms away, eight gave 39,000 requests a second where one gave 24,000.
2. The same Txn is sent again, at another member of etcd, until its answer is definite or the stream has shown
   the entry. That is safe, since the number is compared, and an old number is ignored. So the first timeout
   is a second. A read of the key settles nothing: the Txn may be executed after the read.
3. A number that was used is always filled. Where etcd refuses an entry for good (no space, too large), the
   number gets a replacement without the requests that cannot be appended. At the edge of its quota etcd
   refuses Txns that it has executed, so the stream shows which of the two counts. A replacement is put by a
   Txn within the Txn, which etcd's check of the quota does not see.
4. If the proxy key is gone, or may be, the incarnation is over. Which of its entries took effect is what the
   state says once the stream has passed the deletion of the key, not what keys are in etcd. Then the next
   incarnation carries the sessions over and sends the rest again, in order.
5. The sessions' time counts from the keep-alives of the incarnation that the log has them attached to, not
   from those of the newest one: other proxies end them by the former.
6. Requests of one session are answered in the order in which they came, also those that are refused without
   an entry: these wait for the entry before them (`Sent.after`).
7. While etcd is full or nearly so, what makes the tree larger is refused here, and what gives space back
   passes. While a budget is spent, the requests that it covers are refused. Neither is in the log, so proxies
   need not agree about it.
8. A sync that comes alone needs no entry: a read of the log's head takes its place.

In which order to read:

pending       one request and its outcome
outbox        requests into entries: batches, numbers, refusals. Pure. Its script: tests/proxy/log/outbox.txt
appender      when a Txn is sent, and when again
membership    an incarnation: its lease, its key, its Txns
incarnations  one life after the other
syncs         syncs without an entry: which may be answered when. Pure
head_reader   the read that they need
space         how full etcd is, and what is refused because of that. Pure
"""
