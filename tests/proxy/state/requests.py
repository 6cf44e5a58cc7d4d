"""Random requests for the property tests, few enough paths that they meet all the time."""

from hypothesis import strategies as st

from codec.jute import Acl
from lab.oracle.requests import (
    CONTAINER,
    SEQUENTIAL,
    SEQUENTIAL_WITH_TTL,
    WITH_TTL,
    Check,
    CheckNotExists,
    CheckStat,
    CloseSession,
    Create,
    CreateContainer,
    CreateIfNotExists,
    CreateTtl,
    Delete,
    DeleteContainer,
    Multi,
    RemoveRecursive,
    SetAcl,
    SetData,
    TryRemove,
)
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
    Create,
    st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/p", "/a/s", "/missing/child", "/a/x/p"]),
    _DATA,
    st.sampled_from([0, 0, 0, 1, 2, 3]),
    _ACLS,
)
_MORTALS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/s"])
mortals = st.one_of(
    st.builds(CreateContainer, _MORTALS, _DATA, st.sampled_from([CONTAINER, SEQUENTIAL]), _ACLS),
    st.builds(
        CreateTtl,
        _MORTALS,
        _DATA,
        st.sampled_from([1, 60_000]),
        st.sampled_from([WITH_TTL, SEQUENTIAL_WITH_TTL]),
        _ACLS,
    ),
)
deletes = st.builds(Delete, _PATHS, _VERSIONS)
sets = st.builds(SetData, _PATHS, _DATA, _VERSIONS)
acls = st.builds(SetAcl, _PATHS, _ACLS, _VERSIONS)
checks = st.builds(Check, _PATHS, _VERSIONS)
_STATS = st.sampled_from([(-1,) * 11, (-1, -1, -1, -1, 0, -1, -1, -1, -1, 1, -1)])
keepers = st.one_of(
    st.builds(CheckNotExists, _PATHS, _VERSIONS),
    st.builds(CreateIfNotExists, _PATHS, _DATA, st.sampled_from([0, 0, 0, 1, 2]), _ACLS),
    st.builds(RemoveRecursive, _PATHS, st.sampled_from([1000, 1000, 2, 1, 0])),
    st.builds(CheckStat, _PATHS, _VERSIONS, _STATS),
    st.builds(TryRemove, _PATHS, _VERSIONS),
)
parts = st.one_of(creates, creates, mortals, deletes, sets, checks, keepers)
multis = st.builds(Multi, st.lists(parts, max_size=6).map(tuple))
# Multis about two nodes alone: delete and create again, in all orders.
rebirths = st.builds(
    Multi,
    st.lists(
        st.sampled_from(
            [
                Delete("/a/x/p"),
                Delete("/a/x"),
                Create("/a/x"),
                Create("/a/x/p"),
                SetData("/a/x", b"new"),
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
    st.builds(DeleteContainer, _PATHS),
    sets,
    acls,
    multis,
    rebirths,
    keepers,
    st.builds(CloseSession),
)
# (session, request) pairs, in batches
batches = st.lists(st.lists(st.tuples(st.sampled_from(SESSIONS), requests), max_size=6), max_size=6)
