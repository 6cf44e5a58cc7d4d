"""The arithmetic by which requests are kept within etcd's limits."""

import pytest

from proxy.etcd.model import Compare, Delete, Get, Put, Txn, WatchCompacted, chain_cost, txn_size

GUARD = Compare(b"k", 0)
PUT = Put(b"k", b"v")


@pytest.mark.parametrize(
    ("txn", "cost"),
    [
        (Txn([], []), 0),
        (Txn([], [PUT, PUT], [PUT]), 2),
        (Txn([GUARD] * 3, [PUT, PUT]), 3),
        (Txn([], [], [PUT] * 4), 4),
        (Txn([], [Txn([GUARD] * 5, [PUT])] * 64), 69),
        # Not the sum over siblings, but the dearest chain, also in the branch not taken.
        (Txn([], [Txn([], [PUT] * 3)], [Txn([], [PUT, Txn([], [PUT] * 7)])]), 10),
    ],
)
def test_chain_cost(txn: Txn, cost: int) -> None:
    assert chain_cost(txn) == cost


def test_txn_size_counts_every_key_and_value() -> None:
    small = Txn([GUARD], [PUT, Delete(b"k", b"l"), Get(b"k"), Txn([], [PUT])], [PUT])
    large = Txn(
        [Compare(b"k" * 101, 0)],
        [
            Put(b"k" * 101, b"v"),
            Delete(b"k", b"l" * 101),
            Get(b"k" * 101),
            Txn([], [Put(b"k", b"v" * 101)]),
        ],
        [Put(b"k", b"v" * 101)],
    )
    assert txn_size(large) - txn_size(small) == 600


def test_a_compacted_watch_names_the_oldest_revision() -> None:
    compacted = WatchCompacted(7)
    assert (compacted.revision, compacted.message) == (7, str(compacted))
    assert compacted.message.endswith("revision is 7")
