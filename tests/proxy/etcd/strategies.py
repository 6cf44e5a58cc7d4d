"""Random transactions for the tests of `wire` and of the fake: small keys, so that they meet."""

from hypothesis import strategies as st

from proxy.etcd.model import Compare, Delete, Get, Op, Put, Txn

LEASES = (11, 12)


def keys(prefix: bytes) -> st.SearchStrategy[bytes]:
    """One of few keys below `prefix`."""
    return st.sampled_from([prefix + name for name in (b"a", b"b", b"c", b"d", b"e")])


def range_ends(prefix: bytes) -> st.SearchStrategy[bytes]:
    """None, or the end of a range below `prefix`, possibly an empty one."""
    return st.sampled_from([b"", b"", prefix + b"b", prefix + b"d", prefix + b"z"])


def puts(prefix: bytes) -> st.SearchStrategy[Put]:
    """Puts, some under a lease that may not exist."""
    return st.builds(Put, keys(prefix), st.binary(max_size=5), st.sampled_from((0, 0, 0, *LEASES)))


def deletes(prefix: bytes) -> st.SearchStrategy[Delete]:
    """Deletes of a key or a range."""
    return st.builds(Delete, keys(prefix), range_ends(prefix))


def gets(prefix: bytes, revisions: st.SearchStrategy[int]) -> st.SearchStrategy[Get]:
    """Reads of a key or a range."""
    return st.builds(
        Get, keys(prefix), range_ends(prefix), revisions, st.booleans(), st.integers(min_value=0, max_value=3)
    )


def txns(prefix: bytes, revisions: st.SearchStrategy[int], *, max_ops: int = 4) -> st.SearchStrategy[Txn]:
    """Transactions, nested up to three deep."""
    compares = st.lists(
        st.builds(Compare, keys(prefix), revisions, range_ends(prefix), st.booleans()), max_size=2
    )
    leaf: st.SearchStrategy[Op] = st.one_of(puts(prefix), deletes(prefix), gets(prefix, st.just(0)))

    def level(inner: st.SearchStrategy[Op]) -> st.SearchStrategy[Txn]:
        ops = st.lists(inner, max_size=max_ops)
        return st.builds(Txn, compares, ops, ops)

    second = level(st.one_of(leaf, leaf, level(leaf)))
    return level(st.one_of(leaf, leaf, second))
