"""Hypothesis strategies for what the schema stores."""

from hypothesis import strategies as st

from codec.jute import OPEN_ACL, Acl
from schema.entry import Identity
from schema.znode import Znode

LONGS = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
UNSIGNED = st.integers(min_value=0, max_value=(1 << 64) - 1)
INTS = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
#: Every character that Python's str can hold, surrogates and NUL included.
TEXTS = st.text(
    st.characters(exclude_categories=[]) | st.sampled_from("\0\ud800\udfff\U0001f600é/"), max_size=10
)
PATHS = st.text(
    st.characters(exclude_categories=[], exclude_characters="\0")
    | st.sampled_from("/\ud800\udc00\U0010ffff"),
    max_size=12,
).map(lambda text: "/" + text)
ACLS = st.just(OPEN_ACL) | st.lists(st.builds(Acl, INTS, TEXTS, TEXTS), max_size=3).map(tuple)
IDENTITIES = st.lists(st.builds(Identity, TEXTS, TEXTS), max_size=3).map(tuple)
ZNODES = st.builds(
    Znode,
    data=st.none() | st.binary(max_size=40),
    acl=ACLS,
    owner=st.just(0) | LONGS,
    czxid=LONGS,
    mzxid=LONGS,
    pzxid=LONGS,
    ctime=LONGS,
    mtime=LONGS,
    version=INTS,
    created=INTS,
    aversion=INTS,
)


def fields(node: Znode) -> dict[str, object]:
    """A znode's fields, to compare two of them."""
    return {name: getattr(node, name) for name in Znode.__slots__}
