"""Appending to the log: from the requests of this proxy to entries in etcd, each exactly once.

The rules are in docs/architecture.md: 2.1 to 2.7, 3.9 of syncs, and 4.4 of keep-alives. Besides:

* How many Txns are in flight depends on the round trip: near by, more than two only make proxy and etcd wait
  for each other; 20 ms away, eight gave 39,000 requests a second where one gave 24,000.
* To send the same Txn again is safe, since the number is compared and an old number is ignored. So the first
  timeout is a second.
* At the edge of its quota etcd refuses Txns that it has executed, so only the stream shows whether the entry
  or its replacement counts.

In which order to read:

pending       one request and its outcome
sent          an entry: its form, its stage, and what changes them. Pure
outbox        requests into entries: batches, numbers, refusals. Pure. Its script: tests/proxy/log/outbox.txt
appender      when a Txn is sent, and when again
registration  an incarnation: its lease, its key, its Txns
incarnations  one life after the other
syncs         syncs without an entry: which may be answered when. Pure
head_reader   the read that they need
space         how full etcd is, and what is refused because of that. Pure
"""
