"""Random transactions for the tests of `wire` and of the fake: small keys, so that they meet."""

from hypothesis import strategies as st

from proxy.etcd.model import Compare, Delete, Get, Op, Put, Txn

LEASES = (11, 12)


def txns(prefix: bytes, revisions: st.SearchStrategy[int], *, max_ops: int = 4) -> st.SearchStrategy[Txn]:
    """Transactions, nested up to three deep; some ranges are empty, and some leases do not exist."""
    keys = st.sampled_from([prefix + name for name in (b"a", b"b", b"c", b"d", b"e")])
    ends = st.sampled_from([b"", b"", prefix + b"b", prefix + b"d", prefix + b"z"])
    compares = st.lists(st.builds(Compare, keys, revisions, ends, st.booleans()), max_size=2)
    leaf: st.SearchStrategy[Op] = st.one_of(
        st.builds(Put, keys, st.binary(max_size=5), st.sampled_from((0, 0, 0, *LEASES))),
        st.builds(Delete, keys, ends),
        st.builds(Get, keys, ends, st.just(0), st.booleans(), st.integers(0, 3)),
    )

    def level(inner: st.SearchStrategy[Op]) -> st.SearchStrategy[Txn]:
        ops = st.lists(inner, max_size=max_ops)
        return st.builds(Txn, compares, ops, ops)

    second = level(st.one_of(leaf, leaf, level(leaf)))
    return level(st.one_of(leaf, leaf, second))
