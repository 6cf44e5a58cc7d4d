"""Txns that a stock etcd takes."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.etcd.limits import Limits
from proxy.etcd.model import Compare, Put, Txn, txn_size

GUARD = Compare(b"/t/tree", 7)


@given(
    st.lists(st.integers(0, 2000), max_size=300),
    st.integers(2, 40),
    st.integers(4000, 20_000),
)
def test_every_put_once_in_order_and_within_the_limits(sizes: list[int], most: int, room: int) -> None:
    puts = [Put(b"k%d" % number, bytes(size)) for number, size in enumerate(sizes)]
    groups = list(Limits(most, room).groups(puts, GUARD))
    assert [put for group in groups for put in group] == puts
    for group in groups:
        assert 0 < len(group) <= most
        assert txn_size(Txn((GUARD,), group)) <= room


def test_a_put_that_fits_nowhere_goes_alone() -> None:
    puts = [Put(b"a", b""), Put(b"b", bytes(5000)), Put(b"c", b"")]
    assert list(Limits(10, 1000).groups(puts, GUARD)) == [[put] for put in puts]
