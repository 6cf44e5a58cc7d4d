"""The arithmetic by which requests are kept within etcd's limits."""

from proxy.etcd.model import Compare, Delete, Get, Put, Txn, WatchCompacted, txn_size

GUARD = Compare(b"k", 0)
PUT = Put(b"k", b"v")


def test_txn_size_counts_every_key_and_value() -> None:
    small = Txn([GUARD], [PUT, Delete(b"k", b"l"), Get(b"k"), Txn([], [PUT])], [PUT])
    large = Txn(
        [Compare(b"k" * 101, 0)],
        [Put(b"k" * 101, b"v"), Delete(b"k", b"l" * 101), Get(b"k" * 101), Txn([], [Put(b"k", b"v" * 101)])],
        [Put(b"k", b"v" * 101)],
    )
    assert txn_size(large) - txn_size(small) == 600


def test_a_compacted_watch_names_the_oldest_revision() -> None:
    compacted = WatchCompacted(7)
    assert (compacted.revision, compacted.message) == (7, str(compacted))
    assert compacted.message.endswith("revision is 7")
