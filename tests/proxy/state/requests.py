"""Random requests for the property tests, few enough paths that they meet all the time."""

from hypothesis import strategies as st

from codec.jute import Acl
from lab.oracle import requests as oracle
from proof import naive

SESSIONS = (1, 2, 3)

# Few permissions that refuse something, else every script would soon end in NOAUTH.
_ACLS = st.sampled_from(
    [(Acl(31, "world", "anyone"),)] * 8
    + [(Acl(perms, "world", "anyone"),) for perms in (1, 29, 15)]
    + [(Acl(31, "world", "anyone"), Acl(1, "ip", "10.0.0.0/8"))]
)
_PATHS = st.sampled_from(
    ["/a", "/b", "/a/x", "/a/y", "/a/x/p", "/a/s0000000000", "/a/s0000000001", "/missing/child"]
)
_VERSIONS = st.sampled_from([-1, -1, -1, -1, 0, 0, 1, 2])
_DATA = st.sampled_from([b"", b"one", b"two", None])

creates = st.builds(
    oracle.Create,
    st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/p", "/a/s", "/missing/child", "/a/x/p"]),
    _DATA,
    st.sampled_from([0, 0, 0, 1, 2, 3]),
    _ACLS,
)
_MORTALS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/s"])
mortals = st.one_of(
    st.builds(
        oracle.CreateContainer, _MORTALS, _DATA, st.sampled_from([oracle.CONTAINER, oracle.SEQUENTIAL]), _ACLS
    ),
    st.builds(
        oracle.CreateTtl,
        _MORTALS,
        _DATA,
        st.sampled_from([1, 60_000]),
        st.sampled_from([oracle.WITH_TTL, oracle.SEQUENTIAL_WITH_TTL]),
        _ACLS,
    ),
)
deletes = st.builds(oracle.Delete, _PATHS, _VERSIONS)
sets = st.builds(oracle.SetData, _PATHS, _DATA, _VERSIONS)
acls = st.builds(oracle.SetAcl, _PATHS, _ACLS, _VERSIONS)
checks = st.builds(oracle.Check, _PATHS, _VERSIONS)
_STATS = st.sampled_from([(-1,) * 11, (-1, -1, -1, -1, 0, -1, -1, -1, -1, 1, -1)])
keepers = st.one_of(
    st.builds(oracle.CheckNotExists, _PATHS, _VERSIONS),
    st.builds(oracle.CreateIfNotExists, _PATHS, _DATA, st.sampled_from([0, 0, 0, 1, 2]), _ACLS),
    st.builds(oracle.RemoveRecursive, _PATHS, st.sampled_from([1000, 1000, 2, 1, 0])),
    st.builds(oracle.CheckStat, _PATHS, _VERSIONS, _STATS),
    st.builds(oracle.TryRemove, _PATHS, _VERSIONS),
)
parts = st.one_of(creates, creates, mortals, deletes, sets, checks, keepers)
multis = st.builds(oracle.Multi, st.lists(parts, max_size=6).map(tuple))
# Multis about two nodes alone: delete and create again, in all orders.
rebirths = st.builds(
    oracle.Multi,
    st.lists(
        st.sampled_from(
            [
                oracle.Delete("/a/x/p"),
                oracle.Delete("/a/x"),
                oracle.Create("/a/x"),
                oracle.Create("/a/x/p"),
                oracle.SetData("/a/x", b"new"),
            ]
        ),
        max_size=5,
    ).map(tuple),
)
requests: st.SearchStrategy[naive.Asked] = st.one_of(
    creates,
    creates,
    mortals,
    deletes,
    st.builds(oracle.DeleteContainer, _PATHS),
    sets,
    acls,
    multis,
    rebirths,
    keepers,
    st.builds(oracle.CloseSession),
)
# (session, request) pairs, in batches
batches = st.lists(st.lists(st.tuples(st.sampled_from(SESSIONS), requests), max_size=6), max_size=6)
