"""Txns that a stock etcd takes."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.etcd.limits import Limits, pack
from proxy.etcd.model import Compare, Op, Put, Txn, chain_cost, txn_size

GUARD = Compare(b"/t/tree", 7)


def flat(ops: list[Op]) -> list[Op]:
    return [inner for op in ops for inner in (flat(list(op.success)) if isinstance(op, Txn) else [op])]


@given(
    st.lists(st.integers(0, 2000), max_size=300),
    st.integers(2, 40),
    st.integers(4000, 20_000),
)
def test_every_put_once_in_order_and_within_the_limits(sizes: list[int], most: int, room: int) -> None:
    puts = [Put(b"k%d" % number, bytes(size)) for number, size in enumerate(sizes)]
    txns = list(pack(puts, GUARD, Limits(most, room)))
    assert flat(list(txns)) == puts
    for txn in txns:
        assert txn.compares == (GUARD,)
        assert chain_cost(txn) <= most
        assert txn_size(txn) <= room


def test_a_stock_etcd_gets_a_thousand_puts_at_once() -> None:
    txns = list(pack([Put(b"%d" % number, b"") for number in range(3000)], GUARD, Limits()))
    assert len(txns) == 3
    assert all(chain_cost(txn) <= 128 for txn in txns)
